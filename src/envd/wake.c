#include "envd/wake.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/daemon.h"
#include "fleet/instances.h"
#include "http/reply.h"
#include "proto/signature.h"

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

/* Running or not, the handler knows what to say, but not what its key may have. */
static void on_obtained(void *arg, struct instance *i, bool resumed, const struct error *why)
{
	struct waking *w = arg;
	struct request *r = w->request;
	request_handler then = w->then;

	free(w);
	request_set_ops(r, NULL, NULL);
	if (!i && (why->code == ERROR_TOO_MANY || why->code == ERROR_FORBIDDEN))
		reply_failure(r, why);
	else
		then(r);
}

/* Tokens are checked before the sandbox is woken, or anybody could keep it awake. */
static bool has_token(const struct request *r, const struct store_sandbox *sb)
{
	bool envd = r->route.port == ROUTE_ENVD_PORT;
	const char *want = envd ? sb->envd_token : sb->traffic_token;
	const char *given = http_header_get(
		&r->head->headers, envd ? "x-access-token" : "e2b-traffic-access-token");

	return r->admin || !want || (given && secret_equal(given, want));
}

static bool wakes(const struct request *r)
{
	struct store_sandbox *sb = NULL;
	bool yes;

	if (store_sandbox_get(r->daemon->store, r->route.sandbox_id, &sb, NULL) < 0)
		return false;
	yes = (sb->state == STORE_PAUSED || sb->state == STORE_PAUSING) && sb->auto_resume &&
	      sb->pause_memory && has_token(r, sb);
	store_sandbox_free(sb);
	return yes;
}

void wake_then(struct request *r, request_handler then)
{
	static const struct obtain_options o = {.resume = true, .memory = true};
	struct waking *w;

	if (r->route.kind != ROUTE_SANDBOX || instance_find(r->daemon, r->route.sandbox_id) ||
		!wakes(r) || !(w = calloc(1, sizeof(*w)))) {
		then(r);
		return;
	}
	w->request = r;
	w->then = then;
	request_set_ops(r, &ops, w);
	instance_obtain(r->daemon, r->route.sandbox_id, &o, on_obtained, w, &w->obtaining);
}
