/* Pausing, resuming, connecting (protocol section 2.9), and rolling back to a snapshot. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/unplaced.h"
#include "base/clock.h"
#include "fleet/fleet_of.h"
#include "fleet/instance.h"
#include "http/reply.h"
#include "network/activity_lifecycle.h"
#include "lifecycle/instance_obtain.h"
#include "lifecycle/instance_pause.h"
#include "proto/route.h"
#include "store/sandboxes.h"
#include "store/snapshots.h"

enum { RESUME_S = 15 };

/* --- pause --- */

static void on_paused(void *arg, const struct error *why)
{
	struct request *r = api_deferred_take(arg);

	if (r && why)
		reply_failure(r, why);
	else if (r)
		reply_empty(r, 204);
}

/* A pause that waits until another one or a snapshot is made, or until the sandbox is back. */
struct waiting_pause {
	struct request *request;
	struct instance_waiter waiter;
	unsigned how;
	bool others; /* what another request does will do */
};

static void try_pause(struct request *r, unsigned how, bool others);

static void on_waiting_done(struct request *r, bool complete)
{
	struct waiting_pause *w = r->data;

	instance_unwait(fleet_of(r), &w->waiter);
	free(w);
}

static void on_pause_settled(void *arg, const struct error *why)
{
	struct waiting_pause w = *(struct waiting_pause *)arg;

	free(arg);
	request_set_ops(w.request, NULL, NULL);
	try_pause(w.request, w.how, w.others);
}

static void pause_later(struct request *r, struct instance *i, unsigned how)
{
	static const struct request_ops ops = {.done = on_waiting_done};
	struct waiting_pause *w = api_calloc(r, sizeof(*w));

	if (!w)
		return;
	*w = (struct waiting_pause){.request = r,
		.waiter = {.settled = on_pause_settled, .arg = w},
		.how = how,
		.others = i->state == INSTANCE_PAUSING && !i->goes_back};
	request_set_ops(r, &ops, w);
	instance_wait(i, &w->waiter);
}

static void pause_one(struct request *r, struct instance *i, unsigned how)
{
	struct api_deferred *d = api_defer(r);
	struct error e = {0};

	if (d && instance_pause(i, how, on_paused, d, &e) < 0) {
		(void)api_deferred_take(d); /* it is r */
		if (e.code == ERROR_BUSY)   /* clients read a 409 as "it is already paused" */
			reply_error(r, 503, "%s", e.message);
		else
			reply_failure(r, &e);
	}
}

/* What a pause waits for, or NULL. */
static struct instance *find_busy(struct request *r, const struct store_sandbox *sb)
{
	struct instance *i = instance_find(fleet_of(r), sb->id);

	if (i)
		return i->job ? i : NULL;
	i = instance_find_unsettled(fleet_of(r), sb->id);
	return i && i->state != INSTANCE_ENDING ? i : NULL;
}

static void try_pause(struct request *r, unsigned how, bool others)
{
	struct store_sandbox *sb = api_find(r);
	struct instance *busy = sb ? find_busy(r, sb) : NULL, *i;

	if (!sb)
		return;
	if (others && sb->state == STORE_PAUSED) {
		reply_empty(r, 204);
	} else if (busy) {
		pause_later(r, busy, how);
	} else {
		i = api_find_running_else(
			r, sb, "Error pausing sandbox - sandbox", "is already paused");
		if (i && auth_may_keep(r, sb, false))
			pause_one(r, i, how);
	}
	store_sandbox_free(sb);
}

static void take_pause(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n);
	bool memory = true, healthy = false;
	bool ok = body && api_take_flag(r, body, "memory", &memory) &&
		  api_take_flag(r, body, "requireHealthyGuest", &healthy);

	if (ok)
		try_pause(r,
			PAUSE_LIMITED | (memory ? PAUSE_MEMORY : 0) | (healthy ? PAUSE_HEALTHY : 0),
			false);
	json_decref(body);
}

void api_pause(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_pause);
}

/* --- resume, connect --- */

/* A request that waits until a sandbox is running. */
struct connecting {
	struct request *request;
	struct obtaining *obtaining;
	int64_t timeout_s;
	bool resume; /* also if another request has resumed it meanwhile */
};

static void on_connecting_done(struct request *r, bool complete)
{
	struct connecting *c = r->data;

	obtaining_cancel(c->obtaining);
	free(c);
}

static const struct request_ops connecting_ops = {.done = on_connecting_done};

/* extend: the deadline is at least timeout_s from now. */
static void reply_running(
	struct request *r, const char *id, int status, bool extend, int64_t timeout_s)
{
	struct store_sandbox *sb = NULL;
	struct error e = {0};

	if (store_sandbox_get(fleet_of(r)->store, id, &sb, &e) < 0)
		reply_failure(r, &e);
	else if (!extend || api_extend(r, sb, timeout_s))
		reply_json(r, status, api_sandbox_json(r, sb));
	store_sandbox_free(sb);
}

static void on_obtained(void *arg, struct instance *i, bool resumed, const struct error *why)
{
	struct connecting *c = arg;

	c->obtaining = NULL;
	if (i)
		reply_running(c->request, instance_id(i), resumed || c->resume ? 201 : 200,
			!resumed, c->timeout_s);
	else
		api_reply_unplaced(c->request, why);
}

/* Options of connect (both versions) and resume. */
struct connect {
	int64_t timeout_s;
	bool memory;
	bool resume; /* the sandbox must be paused */
	enum obtain_at_end at_end;
};

static void obtain(struct request *r, const char *id, const struct connect *how)
{
	const struct obtain_options o = {.resume = true,
		.timeout_ns = (uint64_t)(how->timeout_s ? how->timeout_s : 1) * NS_PER_S,
		.memory = how->memory,
		.at_end = how->at_end,
		.entitled = r->admin};
	struct connecting *c = api_calloc(r, sizeof(*c));

	if (!c)
		return;
	c->request = r;
	c->timeout_s = how->timeout_s;
	c->resume = how->resume;
	request_set_ops(r, &connecting_ops, c);
	instance_obtain(fleet_of(r), id, &o, on_obtained, c, &c->obtaining);
}

/* Whether another request is resuming it. */
static bool is_returning(const struct request *r, const char *id)
{
	const struct instance *i = instance_find_unsettled(fleet_of(r), id);

	return i && i->state == INSTANCE_CREATING;
}

/* A connect to a running sandbox may ask for no more time; a resume gives it a life. */
static bool take_timeout(struct request *r, const json_t *body, bool required, struct connect *how)
{
	return how->resume ? api_take_life(r, body, "timeout", required, &how->timeout_s)
			   : api_take_seconds(r, body, "timeout", required, &how->timeout_s);
}

static bool take_options(
	struct request *r, const json_t *body, bool timeout_required, struct connect *how)
{
	bool pause = false;

	if (!take_timeout(r, body, timeout_required, how) ||
		!api_take_flag(r, body, "memory", &how->memory) ||
		(how->resume && !api_take_flag(r, body, "autoPause", &pause)))
		return false;
	if (how->resume && json_is_boolean(json_object_get(body, "autoPause")))
		how->at_end = pause ? OBTAIN_TO_PAUSE : OBTAIN_TO_KILL;
	return true;
}

/* A sandbox that ends by itself still exists for clients that were not told of its end; for a
 * resume it is gone, as it cannot be paused any more. True: answered. */
static bool refuse_ending(struct request *r, bool resume)
{
	char id[ROUTE_SANDBOX_ID_MAX + 1];
	const struct instance *i = route_sandbox_id(r->params[0], id)
					   ? instance_find_unsettled(fleet_of(r), id)
					   : NULL;

	if (!i || i->state != INSTANCE_ENDING || i->told || !auth_may_see(r, i->key_id))
		return false;
	if (resume)
		api_refuse_absent(r);
	else
		reply_error(r, 409, "Sandbox \"%s\" is being killed", id);
	return true;
}

/* The common part of the three: parses the body and finds the client's sandbox. */
static void connect_to(
	struct request *r, const char *text, size_t n, bool timeout_required, struct connect how)
{
	json_t *body = api_body(r, text, n);
	bool ok = body && take_options(r, body, timeout_required, &how);
	struct store_sandbox *sb = ok && !refuse_ending(r, how.resume) ? api_find(r) : NULL;

	json_decref(body);
	if (!sb)
		return;
	if (api_is_unresponsive(sb) && how.memory) {
		reply_error_code(r, 409, "sandbox_snapshot_guest_agent_unresponsive",
			"the sandbox's agent did not answer when it was paused, and would not now: "
			"resume it with memory: false, which boots it from its disk");
	} else if (instance_find(fleet_of(r), sb->id)) {
		if (how.resume)
			reply_error(r, 409, "Sandbox %s is already running", sb->id);
		else
			reply_running(r, sb->id, 200, true, how.timeout_s);
	} else if (is_returning(r, sb->id) || auth_may_resume(r)) {
		obtain(r, sb->id, &how);
	}
	store_sandbox_free(sb);
}

static void take_connect_v1(struct request *r, const char *body, size_t n)
{
	connect_to(r, body, n, true, (struct connect){.memory = true});
}

static void take_connect_v2(struct request *r, const char *body, size_t n)
{
	connect_to(
		r, body, n, false, (struct connect){.timeout_s = API_TIMEOUT_V2_S, .memory = true});
}

static void take_resume(struct request *r, const char *body, size_t n)
{
	connect_to(r, body, n, false,
		(struct connect){.timeout_s = RESUME_S, .memory = true, .resume = true});
}

void api_connect_v1(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_connect_v1);
}

void api_connect_v2(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_connect_v2);
}

void api_resume(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_resume);
}

/* --- rolling back --- */

struct rollback {
	struct api_deferred *deferred;
	struct fleet *fleet;
	char id[SANDBOX_ID_BYTES];
	uint64_t end_ns;  /* its deadline, which stays */
	bool rolled_back; /* the previous state is gone */
	char key_id[STORE_ID_MAX + 1], snapshot[STORE_ID_MAX + 1];
};

static void on_back(void *arg, struct instance *i, bool resumed, const struct error *why)
{
	struct rollback *b = arg;
	struct request *r = api_deferred_take(b->deferred);

	if (r && b->rolled_back)
		request_set_final(r);
	if (r && i)
		reply_running(r, b->id, 201, false, 0);
	else if (r)
		reply_failure(r, why);
	free(b);
}

static void on_rolled_back(void *arg, const struct error *why)
{
	struct rollback *b = arg;
	uint64_t now = clock_realtime_ns();
	const struct obtain_options o = {.resume = true,
		.timeout_ns = b->end_ns > now ? b->end_ns - now : NS_PER_S,
		.memory = true,
		.entitled = true};
	struct obtaining *ignored; /* goes on even if the client has gone */

	b->rolled_back = !why;
	if (!why)
		activity_rolled_back(b->fleet, b->id, b->key_id, b->snapshot);
	if (why)
		on_back(b, NULL, false, why);
	else
		instance_obtain(b->fleet, b->id, &o, on_back, b, &ignored);
}

static void roll_back(
	struct request *r, const struct store_sandbox *sb, const struct store_snapshot *sn)
{
	struct instance *i = api_find_running(r, sb);
	struct rollback *b = i ? api_calloc(r, sizeof(*b)) : NULL;
	struct error e = {0};

	if (b)
		b->deferred = api_defer(r);
	if (!b || !b->deferred) { /* answered */
		free(b);
		return;
	}
	b->fleet = fleet_of(r);
	b->end_ns = sb->end_ns;
	memcpy(b->id, instance_id(i), sizeof(b->id));
	(void)strcpy(b->key_id, instance_key_id(i)); /* fits, as does the next */
	(void)strcpy(b->snapshot, sn->id);
	if (instance_roll_back(i, sn->id, sn->memory, on_rolled_back, b, &e) < 0)
		on_back(b, NULL, false, &e);
}

static bool take_snapshot_name(struct request *r, const json_t *body, struct template_ref *ret)
{
	const char *name = json_string_value(json_object_get(body, "snapshotID"));
	const char *reason = "snapshotID must be given";

	if (name && template_ref_parse(name, ret, &reason) == 0)
		return true;
	reply_error(r, 400, "%s", reason);
	return false;
}

static void take_rollback(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n);
	struct template_ref ref;
	struct store_snapshot sn;
	bool ok = body && take_snapshot_name(r, body, &ref);
	struct store_sandbox *sb = ok ? api_find(r) : NULL;
	struct error e = {0};

	json_decref(body);
	if (!sb)
		return;
	if (api_find_snapshot(r, &ref, &sn, &e) < 0)
		reply_failure(r, &e);
	else if (strcmp(sn.sandbox_id, sb->id) != 0)
		reply_error(r, 400,
			"the snapshot is of another sandbox: make a new sandbox from it instead");
	else
		roll_back(r, sb, &sn);
	store_sandbox_free(sb);
}

void api_rollback(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_rollback);
}
