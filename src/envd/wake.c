#include "envd/wake.h"

#include <stdlib.h>
#include <string.h>

#include "envd/code_access.h"
#include "envd/envd_call.h"
#include "fleet/fleet_of.h"
#include "fleet/instance.h"
#include "http/reply.h"
#include "lifecycle/instance_obtain.h"
#include "proto/signature.h"
#include "store/sandboxes.h"

struct waking {
	struct request *request;
	struct obtaining *obtaining;
	request_handler then;
};

static void on_done(struct request *r, bool complete)
{
	struct waking *w = r->data;

	obtaining_cancel(w->obtaining);
	free(w);
}

static const struct request_ops ops = {.done = on_done};

/* The handler itself can describe a sandbox that is gone or between two states. It does not know
 * why a resume failed: no room, too many sandboxes of the key, or its allowance. */
static void refuse(struct request *r, const struct error *why)
{
	if (why->code == ERROR_NOT_FOUND || why->code == ERROR_BUSY)
		return;
	envd_reply_proxy(r, reply_status_of(why), r->route.sandbox_id, 0, why->message);
}

static void on_obtained(void *arg, struct instance *i, bool resumed, const struct error *why)
{
	struct waking *w = arg;
	struct request *r = w->request;
	request_handler then = w->then;

	free(w);
	request_set_ops(r, NULL, NULL);
	if (!i)
		refuse(r, why);
	if (r->state == REQUEST_NONE)
		then(r);
}

/* A request without envd's token may need none. It wakes nothing, and the handler answers it. */
enum wake { WAKE_NOT, WAKE_REFUSED, WAKE_YES };

/* Checks tokens before the sandbox is woken, or anybody could keep it awake. */
static enum wake check_token(const struct request *r, const struct store_sandbox *sb)
{
	bool envd = r->route.port == ROUTE_ENVD_PORT;
	const char *want = envd ? sb->envd_token : sb->traffic_token;
	const char *given = http_header_get(
		&r->head->headers, envd ? "x-access-token" : "e2b-traffic-access-token");

	if (!code_access_allowed(r, sb->envd_token, false))
		return WAKE_REFUSED;
	if (r->admin || !want || (given && secret_equal(given, want)))
		return WAKE_YES;
	return envd && !given ? WAKE_NOT : WAKE_REFUSED;
}

static enum wake check(const struct request *r)
{
	struct store_sandbox *sb = NULL;
	enum wake w = WAKE_NOT;

	if (store_sandbox_get(fleet_of(r)->store, r->route.sandbox_id, &sb, NULL) < 0)
		return WAKE_NOT;
	if ((sb->state == STORE_PAUSED || sb->state == STORE_PAUSING) &&
		instance_traffic_resumes(sb))
		w = check_token(r, sb);
	store_sandbox_free(sb);
	return w;
}

static void wake(struct request *r, request_handler then)
{
	static const struct obtain_options o = {.resume = true, .memory = true};
	struct waking *w = calloc(1, sizeof(*w));

	if (!w) {
		envd_reply_proxy(r, 503, r->route.sandbox_id, 0, "the server is out of memory");
		return;
	}
	w->request = r;
	w->then = then;
	request_set_ops(r, &ops, w);
	instance_obtain(fleet_of(r), r->route.sandbox_id, &o, on_obtained, w, &w->obtaining);
}

void wake_then(struct request *r, request_handler then)
{
	enum wake w = WAKE_NOT;

	if (r->route.kind == ROUTE_SANDBOX && !instance_find(fleet_of(r), r->route.sandbox_id))
		w = check(r);
	if (w == WAKE_YES)
		wake(r, then);
	else if (w == WAKE_REFUSED)
		envd_reply_proxy(r, 403, r->route.sandbox_id, 0,
			"This sandbox can't be resumed with the credentials provided. Check your "
			"access token and try again.");
	else
		then(r);
}
