#include "lifecycle/freeze.h"

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

static void set_end(const struct instance *i, uint64_t end_ns)
{
	struct error e = {0};

	if (store_sandbox_set_end(i->fleet->store, i->sandbox.id, end_ns, &e) < 0)
		log_error("cannot move a deadline: %s sandbox=%s", e.message, i->sandbox.id);
	deadline_changed(i->fleet);
}

/* Its time to live stands still: it ends FREEZE_MAX_S later at most. */
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

/* Unless somebody has given it another end meanwhile. */
static void let_live(struct instance *i)
{
	if (i->freeze.left_ns && end_of(i) == i->freeze.end_ns)
		set_end(i, clock_realtime_ns() + i->freeze.left_ns);
	i->freeze.left_ns = 0;
}

/* Its wall clock is late by as long as it stood still. The reply does not matter. */
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

static void begin(struct instance *i);

static void took_effect(struct instance *i, const struct change *c)
{
	i->freeze.busy = false;
	if (c->result < 0) {
		static struct log_limit limit = LOG_LIMIT_INIT(20);

		if (log_limited(&limit)) /* a tenant may cause it */
			log_warn("a sandbox does not %s: %s sandbox=%s",
				c->freeze ? "stand still" : "go on", c->why.message, c->id);
		return; /* the next change tries again */
	}
	if (c->freeze && !i->freeze.frozen)
		stop_life(i);
	if (!c->freeze) {
		let_live(i);
		tell_time(i);
	}
	i->freeze.frozen = c->freeze;
	begin(i);
}

static void change_done(uv_work_t *w, int status)
{
	struct change *c = w->data;
	struct instance *i = c->fleet->stopping ? NULL : instance_find(c->fleet, c->id);

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
		log_error("a sandbox goes on as it is: out of memory or descriptors sandbox=%s",
			i->sandbox.id);
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

static void begin(struct instance *i)
{
	if (!i->freeze.busy && i->freeze.wanted != i->freeze.frozen)
		start(i, i->freeze.wanted);
}

static bool may_freeze(const struct instance *i)
{
	return i->fleet->options.backend->freeze && i->state == INSTANCE_RUNNING &&
	       approvals_freeze(i);
}

void freeze_waits_changed(struct instance *i, bool any)
{
	i->freeze.wanted = any && may_freeze(i);
	if (i->state == INSTANCE_RUNNING)
		begin(i);
}

void freeze_recover(struct instance *i)
{
	if (may_freeze(i))
		start(i, false);
}
