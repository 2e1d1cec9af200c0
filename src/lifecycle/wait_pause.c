#include "lifecycle/wait_pause.h"

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "lifecycle/allowance.h"
#include "lifecycle/instance_obtain.h"
#include "lifecycle/instance_pause.h"
#include "network/approvals.h"
#include "store/sandboxes.h"

enum {
	PAUSE_AGAIN_S = 60,  /* after a pause that failed */
	RESUME_AGAIN_S = 10, /* after a resume that did */
	PAGE = 256,
};

struct task {
	struct fleet *fleet;
	char id[SANDBOX_ID_BYTES];
};

static struct task *task_new(struct fleet *f, const char *id)
{
	struct task *t = calloc(1, sizeof(*t));

	if (t) {
		t->fleet = f;
		(void)snprintf(t->id, sizeof(t->id), "%s", id); /* of a sandbox: fits */
	}
	return t;
}

/* --- resuming --- */

static void on_again(uv_timer_t *t)
{
	wait_pause_recover(t->data);
}

static void try_again(struct fleet *f)
{
	if (!f->stopping && !uv_is_active((const uv_handle_t *)&f->wait_pause))
		(void)uv_timer_start(
			&f->wait_pause, on_again, RESUME_AGAIN_S * 1000, 0); /* cannot fail */
}

static void on_resumed(void *arg, struct instance *i, bool resumed, const struct error *why)
{
	static struct log_limit limit = LOG_LIMIT_INIT(20);
	struct task *t = arg;

	if (why && why->code != ERROR_NOT_FOUND && why->code != ERROR_FORBIDDEN) {
		if (log_limited(&limit))
			log_warn("what a sandbox waited for is decided, and it cannot be resumed "
				 "yet: %s sandbox=%s",
				why->message, t->id);
		try_again(t->fleet);
	}
	free(t);
}

static void resume(struct fleet *f, const char *id)
{
	const struct obtain_options o = {.resume = true, .memory = true};
	struct task *t = task_new(f, id);
	struct obtaining *ignored;

	if (t)
		instance_obtain(f, id, &o, on_resumed, t, &ignored);
	else
		try_again(f);
}

static void look_at_row(struct fleet *f, const char *id)
{
	struct store_sandbox *row = NULL;
	bool due = store_sandbox_get(f->store, id, &row, NULL) == 0 &&
		   instance_waits_on_disk(row) && !approvals_waiting(f, id);

	store_sandbox_free(row);
	if (due)
		resume(f, id);
}

void wait_pause_decided(struct fleet *f, const char *id)
{
	/* one that is being paused is looked at when that is done */
	if (!f->stopping && !instance_find(f, id) && !instance_find_unsettled(f, id))
		look_at_row(f, id);
}

struct page {
	unsigned count;
	char ids[PAGE][SANDBOX_ID_BYTES];
};

static int collect(void *arg, const struct store_sandbox *sb)
{
	struct page *p = arg;

	if (instance_waits_on_disk(sb))
		(void)snprintf(p->ids[p->count++], SANDBOX_ID_BYTES, "%s", sb->id); /* fits */
	return 0;
}

void wait_pause_recover(struct fleet *f)
{
	char token[STORE_PAGE_TOKEN_BYTES] = "", next[STORE_PAGE_TOKEN_BYTES];
	struct store_sandbox_filter filter = {
		.states = STORE_STATE_BIT(STORE_PAUSED), .limit = PAGE, .token = token};
	struct error e = {0};

	do {
		struct page p = {0};

		if (store_sandbox_list(f->store, &filter, collect, &p, next, &e) < 0) {
			log_error("cannot look for sandboxes that waited: %s", e.message);
			return;
		}
		for (unsigned n = 0; n < p.count; n++)
			wait_pause_decided(f, p.ids[n]);
		(void)snprintf(token, sizeof(token), "%s", next); /* of the same size */
	} while (token[0]);
}

/* --- pausing --- */

static void on_paused(void *arg, const struct error *why)
{
	struct task *t = arg;
	struct instance *i = why ? instance_find(t->fleet, t->id) : NULL;

	if (i) {
		i->freeze.to_disk = false;
		i->freeze.pause_at_ns = clock_monotonic_ns() + PAUSE_AGAIN_S * NS_PER_S;
		approvals_ask_again(i); /* what was decided meanwhile */
	} else if (!why && !t->fleet->stopping) {
		look_at_row(t->fleet, t->id);
	}
	free(t);
}

/* A daemon that finds the state complete must know why it was written. */
static int note_why(struct instance *i, struct error *e)
{
	_cleanup_free_ char *extra = instance_extra(i, i->transient, false);
	const struct store_sandbox row = {.extra_json = extra};

	if (!extra)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	return store_sandbox_update(i->fleet->store, i->sandbox.id, STORE_STATE_BIT(STORE_RUNNING),
		STORE_SET_EXTRA, &row, NULL, e);
}

static void pause_it(struct instance *i)
{
	static struct log_limit limit = LOG_LIMIT_INIT(20);
	struct task *t = task_new(i->fleet, i->sandbox.id);
	struct error e = {0};

	i->freeze.to_disk = true;
	if (t && note_why(i, &e) == 0 &&
		instance_pause(i, PAUSE_MEMORY | PAUSE_HEALTHY | PAUSE_LIMITED, on_paused, t, &e) ==
			0)
		return;
	free(t);
	i->freeze.to_disk = false;
	i->freeze.pause_at_ns = clock_monotonic_ns() + PAUSE_AGAIN_S * NS_PER_S;
	if (log_limited(&limit)) /* a tenant may cause it */
		log_warn("a sandbox that waits for a person is not paused: %s sandbox=%s",
			t ? e.message : "out of memory", i->sandbox.id);
}

void wait_pause_look(struct instance *i)
{
	uint64_t now = clock_monotonic_ns(), after_ns;

	if (i->freeze.requests || i->freeze.busy || i->job || !allowance_may_pause(i) ||
		!approvals_pause_after(i, &after_ns) || now < i->freeze.pause_at_ns ||
		now - i->freeze.since_ns < after_ns)
		return;
	pause_it(i);
}
