#include "daemon/surfaces.h"

#include "daemon/daemon.h"
#include "daemon/envd.h"
#include "daemon/userport.h"

void surfaces_register(struct daemon *d)
{
	d->envd_handler = envd_handle;
	d->proxy_handler = userport_handle;
}
