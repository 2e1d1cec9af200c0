#include "lifecycle/freeze.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "fleet/deadline.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "fleet/sample.h"
#include "network/approvals.h"
#include "store/sandboxes.h"

enum { LOOK_MS = 1000 }; /* until the next look, and the next try */

/* One change, made in a worker. The instance may be gone when it is done. */
struct change {
	uv_work_t work;
	struct fleet *fleet;
	int dirfd;
	bool freeze;
	int result;
	struct error why;
	char id[SANDBOX_ID_BYTES];
};

static void keep_looking(struct fleet *f);

static void change_work(uv_work_t *w)
{
	struct change *c = w->data;

	c->result = c->fleet->options.backend->freeze(c->dirfd, c->freeze, &c->why);
}

static uint64_t end_of(const struct instance *i)
{
	struct store_sandbox *sb = NULL;
	uint64_t end = store_sandbox_get(i->fleet->store, i->sandbox.id, &sb, NULL) == 0
			       ? sb->end_ns
			       : STORE_NEVER_NS;

	store_sandbox_free(sb);
	return end;
}

/* Writes the deadline, and what the next daemon must know of the freeze, in one commit. */
static void set_end(const struct instance *i, uint64_t end_ns)
{
	_cleanup_free_ char *extra = instance_extra(i, i->transient, false);
	const struct store_sandbox row = {.end_ns = end_ns, .extra_json = extra};
	struct error e = {0};

	if (store_sandbox_update(i->fleet->store, i->sandbox.id,
		    STORE_STATE_BIT(STORE_RUNNING) | STORE_STATE_BIT(STORE_SNAPSHOTTING) |
			    STORE_STATE_BIT(STORE_PAUSING),
		    STORE_SET_END | (extra ? STORE_SET_EXTRA : 0), &row, NULL, &e) < 0)
		log_error("cannot move a deadline: %s sandbox=%s", e.message, i->sandbox.id);
	deadline_changed(i->fleet);
}

/* Stops the time to live: extends the deadline by FREEZE_MAX_S, the longest freeze. */
static void stop_life(struct instance *i)
{
	uint64_t now = clock_realtime_ns(), end = end_of(i);

	i->freeze.left_ns = i->freeze.end_ns = 0;
	if (end == STORE_NEVER_NS || end <= now)
		return;
	i->freeze.left_ns = end - now;
	i->freeze.end_ns = end + FREEZE_MAX_S * NS_PER_S;
	set_end(i, i->freeze.end_ns);
}

/* Gives back the time to live that was left, unless somebody has set another deadline meanwhile. */
static void let_live(struct instance *i)
{
	uint64_t left = i->freeze.left_ns, end = left ? end_of(i) : 0;

	i->freeze.left_ns = 0;
	if (left)
		set_end(i, end == i->freeze.end_ns ? clock_realtime_ns() + left : end);
}

/* Sets the guest's wall clock, which is late by the time of the freeze. The reply does not
 * matter. */
static void tell_time(struct instance *i)
{
	const struct agent_identity m = {
		.fields = AGENT_ID_CLOCK, .realtime_ns = clock_realtime_ns()};
	struct error e = {0};

	if ((!i->link && instance_open_link(i, &e) < 0) ||
		agent_request(agent_link_conn(i->link), AGENT_IDENTITY, &m, &e) < 0)
		log_warn("a sandbox that goes on is not told the time: %s sandbox=%s", e.message,
			i->sandbox.id);
	else
		agent_link_send(i->link);
}

static void note_frozen(struct instance *i)
{
	if (!i->freeze.frozen)
		stop_life(i);
	i->freeze.frozen = true;
	i->freeze.since_ns = clock_monotonic_ns();
}

static void note_goes_on(struct instance *i)
{
	i->freeze.frozen = false;
	i->freeze.since_ns = 0;
	let_live(i);
	tell_time(i);
}

static void took_effect(struct instance *i, const struct change *c)
{
	static struct log_limit limit = LOG_LIMIT_INIT(20);

	i->freeze.busy = false;
	i->freeze.failed = c->result < 0;
	if (i->state == INSTANCE_ENDING)
		return;
	if (c->result < 0 && log_limited(&limit)) /* a tenant may cause it */
		log_warn("a sandbox does not %s: %s sandbox=%s",
			c->freeze ? "stand still" : "go on", c->why.message, c->id);
	if (c->result == 0 && c->freeze)
		note_frozen(i);
	else if (c->result == 0)
		note_goes_on(i);
	if (i->job)
		lane_ask_again(&i->fleet->lane);
	else if (i->freeze.failed)
		keep_looking(i->fleet);
	else
		freeze_look(i);
}

static void change_done(uv_work_t *w, int status)
{
	struct change *c = w->data;
	struct instance *i = NULL;

	if (!c->fleet->stopping)
		i = instance_find(c->fleet, c->id);
	if (!c->fleet->stopping && !i)
		i = instance_find_unsettled(c->fleet, c->id);
	if (i)
		took_effect(i, c);
	(void)close(c->dirfd); /* a directory */
	free(c);
}

static void start(struct instance *i, bool freeze)
{
	struct change *c = calloc(1, sizeof(*c));

	if (c)
		c->dirfd = fcntl(i->sandbox.dirfd, F_DUPFD_CLOEXEC, 3);
	if (!c || c->dirfd < 0) {
		log_error("a sandbox stays as it is: out of memory or descriptors sandbox=%s",
			i->sandbox.id);
		i->freeze.failed = true;
		free(c);
		return;
	}
	c->fleet = i->fleet;
	c->freeze = freeze;
	c->work.data = c;
	memcpy(c->id, i->sandbox.id, sizeof(c->id));
	i->freeze.busy = true;
	/* fails only without a callback */
	(void)uv_queue_work(i->fleet->loop, &c->work, change_work, change_done);
}

/* --- what it is to do --- */

static bool may_freeze(const struct instance *i)
{
	return i->fleet->options.backend->freeze && i->state == INSTANCE_RUNNING &&
	       approvals_freeze(i);
}

/* A pause or snapshot needs a guest that answers. */
static bool is_to_stand(const struct instance *i)
{
	return i->freeze.waits && !i->freeze.spent && !i->job && may_freeze(i);
}

static bool is_over(const struct instance *i)
{
	return i->freeze.since_ns &&
	       clock_monotonic_ns() - i->freeze.since_ns >= FREEZE_MAX_S * NS_PER_S;
}

void freeze_look(struct instance *i)
{
	bool stand;

	if (i->state != INSTANCE_RUNNING || i->freeze.busy)
		return;
	i->freeze.spent = i->freeze.waits && (i->freeze.spent || is_over(i));
	stand = is_to_stand(i);
	if (stand != i->freeze.frozen)
		start(i, stand);
	if (stand || i->freeze.frozen)
		keep_looking(i->fleet);
	if (stand && i->freeze.frozen && i->fleet->stands_still)
		i->fleet->stands_still(i);
}

static int look_again(struct instance *i, void *arg)
{
	freeze_look(i);
	return 0;
}

static void on_look(uv_timer_t *t)
{
	(void)instance_each(t->data, look_again, NULL); /* always 0 */
}

/* Keeps a timer running that looks again: for failed changes, freezes that last too long, and
 * networks that change. */
static void keep_looking(struct fleet *f)
{
	if (!uv_is_active((const uv_handle_t *)&f->freeze))
		(void)uv_timer_start(&f->freeze, on_look, LOOK_MS, 0); /* cannot fail */
}

void freeze_waits_changed(struct instance *i, bool any, bool requests)
{
	i->freeze.waits = any;
	i->freeze.requests = requests;
	freeze_look(i);
}

int freeze_let_go(struct instance *i, struct error *e)
{
	if (i->freeze.busy)
		return -EAGAIN;
	if (!i->freeze.frozen)
		return 0;
	if (!i->freeze.failed)
		start(i, false);
	if (i->freeze.busy)
		return -EAGAIN;
	i->freeze.failed = false; /* the next request tries it again */
	return error_set(e, ERROR_BUSY, EBUSY,
		"the sandbox stands still while a person is asked, and does not go on: try again");
}

void freeze_recover(struct instance *i)
{
	i->freeze.frozen = i->freeze.left_ns || may_freeze(i);
	freeze_look(i);
}
