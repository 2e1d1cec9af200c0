#include "daemon/surfaces.h"

#include "daemon/daemon.h"
#include "envd/envd.h"
#include "envd/userport.h"
#include "envd/wake.h"

static void to_envd(struct request *r)
{
	wake_then(r, envd_handle);
}

static void to_port(struct request *r)
{
	wake_then(r, userport_handle);
}

void surfaces_register(struct daemon *d)
{
	d->envd_handler = to_envd;
	d->proxy_handler = to_port;
}
