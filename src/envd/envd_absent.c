#include "envd/envd_absent.h"

#include <errno.h>

#include "envd/envd_reply.h"
#include "envd/envd_words.h"
#include "fleet/fleet_of.h"
#include "fleet/instance.h"
#include "store/sandboxes.h"

/* Whether it is being paused or resumed, and traffic would resume it, so that the client may try
 * again soon. Any other counts as gone, as one that is paused or being killed does: clients poll
 * isRunning() while a sandbox is paused, and it takes a 409 for a failure. */
static bool is_changing(struct fleet *f, const char *id)
{
	const struct instance *i = instance_find_unsettled(f, id);
	struct store_sandbox *sb = NULL;
	bool changing;

	if (!i || store_sandbox_get(f->store, id, &sb, NULL) < 0)
		return false;
	changing = instance_traffic_resumes(sb) &&
		   (sb->state == STORE_PAUSING ||
			   (sb->state == STORE_PAUSED && i->state == INSTANCE_CREATING));
	store_sandbox_free(sb);
	return changing;
}

int envd_absent_fail(struct fleet *f, const char *id, struct envd_error *e)
{
	if (instance_find(f, id)) {
		(void)envd_fail(e, CONNECT_UNAVAILABLE, "the connection to the sandbox was lost");
		e->status = 502;
	} else if (is_changing(f, id)) {
		(void)envd_fail(e, CONNECT_UNAVAILABLE, ENVD_TEXT_CHANGING);
		e->status = 409;
	} else {
		(void)envd_fail(e, CONNECT_UNAVAILABLE, ENVD_TEXT_NOT_FOUND);
		e->status = 502;
	}
	return -EINVAL;
}

int envd_lost_fail(struct fleet *f, const char *id, const struct error *why, struct envd_error *e)
{
	if (why->code == ERROR_TOO_MANY && instance_find(f, id))
		return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "%s", why->message);
	return envd_absent_fail(f, id, e);
}

void envd_absent_reply(struct request *r)
{
	struct envd_error e;

	(void)envd_absent_fail(fleet_of(r), r->route.sandbox_id, &e);
	envd_reply_proxy(r, e.status, r->route.sandbox_id, 0, e.message);
}
