#include "cli/remote/admin.h"

#include "base/cleanup.h"
#include "cli/remote/client.h"

int admin_call(const struct home *home, const char *method, const char *path, const json_t *body,
	json_t **ret, struct error *e)
{
	const struct client_request request = {.method = method, .target = path};
	_cleanup_(client_closep) struct client *c = NULL;
	int r = client_try(home, &c, e);

	return r < 0 ? r : client_call(c, &request, body, CLIENT_PATIENCE_S, ret, e);
}
