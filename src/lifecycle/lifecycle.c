#include "lifecycle/lifecycle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "fleet/deadline.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "fleet/kept.h"
#include "fleet/meter.h"
#include "fleet/sample.h"
#include "lifecycle/allowance.h"
#include "lifecycle/fair.h"
#include "lifecycle/freeze.h"
#include "lifecycle/instance_end.h"
#include "lifecycle/instance_make.h"
#include "lifecycle/instance_obtain.h"
#include "lifecycle/instance_pause.h"
#include "lifecycle/wait_pause.h"
#include "lifecycle/recovery.h"
#include "network/activity.h"
#include "network/activity_lifecycle.h"
#include "network/approvals.h"
#include "network/egress.h"
#include "network/lockdown.h"
#include "network/renewal.h"
#include "store/samples.h"
#include "store/sandboxes.h"

enum {
	MAINTAIN_MS = 60 * 1000,
	MAINTAIN_FIRST_MS = (SANDBOX_GRACE_S + 1) * 1000,
	MAINTAIN_SOON_MS = 100, /* there is more to do */
};

#define PAUSE_RETRY_NS (60 * NS_PER_S)

/* --- deadlines --- */

/* Moves the deadline, so that the sandbox stays as it is until the next try. */
static void postpone(struct fleet *f, const char *id)
{
	struct error e = {0};

	if (store_sandbox_set_end(f->store, id, clock_realtime_ns() + PAUSE_RETRY_NS, &e) < 0)
		log_error("cannot postpone a deadline: %s sandbox=%s", e.message, id);
	deadline_changed(f);
}

struct auto_pause {
	struct fleet *fleet;
	char id[SANDBOX_ID_BYTES];
};

static void on_auto_paused(void *arg, const struct error *why)
{
	struct auto_pause *p = arg;

	if (why)
		postpone(p->fleet, p->id);
	free(p);
}

/* The client was promised that the sandbox is kept. So if it cannot be paused, it is not killed. */
static void pause_at_deadline(struct instance *i, bool memory)
{
	struct auto_pause *p = calloc(1, sizeof(*p));
	struct error e = {0};

	if (p) {
		p->fleet = i->fleet;
		memcpy(p->id, i->sandbox.id, sizeof(p->id));
		if (instance_pause(i, memory ? PAUSE_MEMORY : 0, on_auto_paused, p, &e) == 0)
			return;
	}
	free(p);
	postpone(i->fleet, i->sandbox.id);
}

static bool end_at_deadline(struct instance *i, const char *reason)
{
	struct error e = {0};

	i->end_reason = reason;
	if (instance_end(i, STORE_EVENT_TIMED_OUT, &e) == 0)
		return true;
	log_error("cannot end a sandbox at its deadline: %s sandbox=%s", e.message, i->sandbox.id);
	return false;
}

struct expiring {
	struct fleet *fleet;
	bool stuck; /* one of them could not be paused or ended */
};

static int expire(void *arg, const char *id, uint64_t end_ns)
{
	struct expiring *x = arg;
	struct fleet *f = x->fleet;
	struct instance *i = instance_find(f, id);
	struct store_sandbox *sb = NULL;
	const char *reason = NULL;
	struct error e = {0};

	if (!i || store_sandbox_get(f->store, id, &sb, &e) < 0) {
		log_error("a sandbox in the store is not known sandbox=%s", id);
		x->stuck = true;
	} else if (sb->auto_pause) {
		pause_at_deadline(i, sb->auto_pause_memory);
	} else if ((reason = allowance_reason(f, i->key_id)) && allowance_may_pause(i)) {
		pause_at_deadline(i, true);
	} else if (!end_at_deadline(i, reason)) {
		x->stuck = true;
	}
	store_sandbox_free(sb);
	return 0;
}

static void on_deadline(uv_timer_t *t)
{
	struct expiring x = {.fleet = t->data};
	struct error e = {0};
	bool more = false;

	if (store_sandbox_expired(x.fleet->store, clock_realtime_ns(), expire, &x, &more, &e) < 0) {
		log_error("cannot look for deadlines: %s", e.message);
		x.stuck = true;
	}
	if (x.stuck)
		deadline_retry(x.fleet);
	else
		deadline_changed(x.fleet);
}

/* --- samples --- */

static int sample_one(struct instance *i, void *arg)
{
	instance_sample(i);
	return 0;
}

static void on_sample(uv_timer_t *t)
{
	struct fleet *f = t->data;

	(void)instance_each(f, sample_one, NULL); /* always 0 */
	meter_report_each(f, NULL, METER_PERIOD_S * NS_PER_S);
	allowance_enforce(f);
}

/* --- the store --- */

static void on_maintain(uv_timer_t *t)
{
	struct fleet *f = t->data;
	const struct store_retention keep = {.activity_ns = f->options.activity_ns};
	struct error e = {0};
	bool more = false;

	aside_sweep(&f->aside);
	sandbox_dirs_collect(&f->dirs); /* sandboxes killed while they were being made */
	if (store_maintain(f->store, clock_realtime_ns(), &keep, &more, &e) < 0)
		log_warn("tidying the store: %s", e.message);
	(void)uv_timer_start(t, on_maintain, more ? MAINTAIN_SOON_MS : MAINTAIN_MS, 0);
}

static void on_fair(uv_timer_t *t)
{
	fair_look(t->data);
}

/* --- start and stop --- */

/* For fleet->obtain. */
static void obtain(struct fleet *f, const char *id, bool resume, instance_obtained obtained,
	void *arg, struct obtaining **ret)
{
	const struct obtain_options o = {.resume = resume, .memory = true};

	instance_obtain(f, id, &o, obtained, arg, ret);
}

int instances_start(struct fleet *f, struct error *e)
{
	int r;

	f->started = true;
	quota_init(&f->quota, &f->options.quota);
	f->aside.loop = f->loop;
	f->aside.home = &f->home;
	f->aside.options = f->options.aside;
	f->on_deadline = on_deadline;
	f->obtain = obtain;
	f->obtain_cancel = obtaining_cancel;
	f->network_changed = egress_policy_changed;
	f->event_noted = activity_lifecycle;
	f->waits_changed = freeze_waits_changed;
	f->stands_still = wait_pause_look;
	f->approval_over = wait_pause_decided;
	f->lane = (struct lane){.loop = f->loop, .max = LANE_MAX, .key_max = LANE_KEY_MAX};
	f->boots = (struct lane){.loop = f->loop, .max = BOOTS_MAX, .key_max = BOOTS_KEY_MAX};
	f->diffs = (struct lane){.loop = f->loop, .max = DIFFS_MAX, .key_max = DIFFS_KEY_MAX};
	/* none of these can fail */
	(void)uv_timer_init(f->loop, &f->deadline);
	(void)uv_timer_init(f->loop, &f->sample);
	(void)uv_timer_init(f->loop, &f->maintain);
	(void)uv_timer_init(f->loop, &f->allowance);
	(void)uv_timer_init(f->loop, &f->fair);
	(void)uv_timer_init(f->loop, &f->freeze);
	(void)uv_timer_init(f->loop, &f->wait_pause);
	f->deadline.data = f->sample.data = f->maintain.data = f->allowance.data = f->fair.data = f;
	f->freeze.data = f->wait_pause.data = f;
	r = activity_start(f, e);
	if (r == 0)
		r = approvals_start(f, e);
	if (r == 0)
		r = kept_init(f, e);
	if (r == 0)
		r = lockdown_start(f, e);
	if (r == 0)
		r = instances_recover(f, e);
	if (r == 0)
		r = lockdown_apply(f, e);
	if (r < 0)
		return r;
	deadline_changed(f);
	wait_pause_recover(f);
	(void)uv_timer_start(&f->sample, on_sample, STORE_SAMPLE_INTERVAL_S * 1000,
		STORE_SAMPLE_INTERVAL_S * 1000);
	(void)uv_timer_start(&f->maintain, on_maintain, MAINTAIN_FIRST_MS, 0);
	(void)uv_timer_start(&f->fair, on_fair, FAIR_PERIOD_MS, FAIR_PERIOD_MS);
	aside_sweep(&f->aside);
	return 0;
}

void instances_stop(struct fleet *f)
{
	if (!f->started || f->stopping)
		return;
	meter_report_each(f, NULL, 0);
	f->stopping = true;
	uv_close((uv_handle_t *)&f->deadline, NULL);
	uv_close((uv_handle_t *)&f->sample, NULL);
	uv_close((uv_handle_t *)&f->maintain, NULL);
	uv_close((uv_handle_t *)&f->allowance, NULL);
	uv_close((uv_handle_t *)&f->fair, NULL);
	uv_close((uv_handle_t *)&f->freeze, NULL);
	uv_close((uv_handle_t *)&f->wait_pause, NULL);
	for (struct instance *i = f->other, *next; i; i = next) {
		next = i->next;
		if (i->maker)
			instance_maker_stop(i->maker);
	}
	lane_cancel_all(&f->lane);
	lane_cancel_all(&f->boots);
	for (unsigned b = 0; b < FLEET_BUCKETS; b++)
		for (struct instance *i = f->buckets[b], *next; i; i = next) {
			next = i->next;
			if (!i->job)		  /* else the end of its job frees it */
				instance_free(i); /* releases a living microVM */
		}
	renewal_stop(f);
	approvals_stop(f);
	activity_stop(f);
}
