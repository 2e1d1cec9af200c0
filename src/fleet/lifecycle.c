/* What happens to instances by time: deadlines, samples of their use, tidying of the store. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "fleet/allowance.h"
#include "fleet/fleet.h"
#include "fleet/instances.h"
#include "fleet/meter.h"
#include "store/samples.h"

enum {
	RETRY_MS = 5000, /* after an error of the store */
	MAINTAIN_MS = 60 * 1000,
	MAINTAIN_FIRST_MS = (SANDBOX_GRACE_S + 1) * 1000,
	MAINTAIN_SOON_MS = 100, /* there is more to do */
	TIMER_MAX_MS = 24 * 3600 * 1000,
};

#define PAUSE_RETRY_NS (60 * NS_PER_S)

/* --- deadlines --- */

/* It stays as it is until the next try. */
static void postpone(struct fleet *f, const char *id)
{
	struct error e = {0};

	if (store_sandbox_set_end(f->store, id, clock_realtime_ns() + PAUSE_RETRY_NS, &e) < 0)
		log_error("cannot postpone a deadline: %s sandbox=%s", e.message, id);
	instances_deadline_changed(f);
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

/* The sandbox was promised to be there later: it is not killed when it cannot be paused. */
static void pause_at_deadline(struct instance *i, bool memory)
{
	struct auto_pause *p = calloc(1, sizeof(*p));
	struct error e = {0};

	if (p) {
		p->fleet = i->fleet;
		memcpy(p->id, i->sandbox.id, sizeof(p->id));
		if (instance_pause(i, memory, false, on_auto_paused, p, &e) == 0)
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
	bool stuck; /* one of them stays as it is */
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
		(void)uv_timer_start(t, on_deadline, RETRY_MS, 0);
	else
		instances_deadline_changed(x.fleet);
}

/* One timer for the next deadline. The wall clock counts, so the timer is set anew at least daily
 * (and whenever any deadline changes), in case the clock was set. */
void instances_deadline_changed(struct fleet *f)
{
	uv_timer_t *t = &f->deadline;
	uint64_t now = clock_realtime_ns(), end, ms;
	struct error e = {0};

	if (f->stopping)
		return;
	if (store_sandbox_next_end(f->store, &end, &e) < 0) {
		log_error("cannot look for the next deadline: %s", e.message);
		(void)uv_timer_start(t, on_deadline, RETRY_MS, 0);
		return;
	}
	if (end == STORE_NEVER_NS) {
		(void)uv_timer_stop(t); /* always 0 */
		return;
	}
	ms = end > now ? (end - now + NS_PER_MS - 1) / NS_PER_MS : 0;
	(void)uv_timer_start(t, on_deadline, ms < TIMER_MAX_MS ? ms : TIMER_MAX_MS, 0);
}

/* --- samples --- */

void instance_sample(struct instance *i)
{
	struct error e = {0};

	if (i->samples.asked || i->state != INSTANCE_RUNNING)
		return;
	if (!i->link && instance_open_link(i, &e) < 0) {
		log_debug("no metrics: %s sandbox=%s", e.message, i->sandbox.id);
		return;
	}
	if (agent_request(agent_link_conn(i->link), AGENT_GET_METRICS, NULL, &e) < 0)
		return; /* the queue is full: the agent does not read; its death shows elsewhere */
	i->samples.asked = true;
	agent_link_send(i->link);
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint32_t cpu_permille(struct instance *i, uint64_t now_ns, uint64_t busy_ns)
{
	uint64_t wall = minus(now_ns, i->samples.at_ns), busy = minus(busy_ns, i->samples.busy_ns);
	bool first = i->samples.at_ns == 0;
	uint64_t max = (uint64_t)i->sandbox.cpus * 1000, v;

	i->samples.at_ns = now_ns;
	i->samples.busy_ns = busy_ns;
	if (first || !wall || busy > UINT64_MAX / 1000)
		return 0;
	v = busy * 1000 / wall;
	return (uint32_t)(v < max ? v : max);
}

void instance_take_metrics(struct instance *i, const struct agent_metrics *m)
{
	uint64_t busy = m->cpu_user_ns + m->cpu_system_ns;
	struct store_sample s = {
		.at_ns = clock_realtime_ns(),
		.cpu_count = i->sandbox.cpus,
		.cpu_used_permille = cpu_permille(i, clock_monotonic_ns(), busy),
		.mem_total_bytes = m->memory_total_bytes,
		.mem_used_bytes = minus(m->memory_total_bytes, m->memory_available_bytes),
		.mem_cache_bytes = m->memory_cached_bytes,
		.disk_total_bytes = m->disk_total_bytes,
		.disk_used_bytes = minus(m->disk_total_bytes, m->disk_free_bytes),
	};
	struct error e = {0};

	i->samples.asked = false;
	if (i->state != INSTANCE_RUNNING)
		return;
	if (store_sample_add(i->fleet->store, i->sandbox.id, &s, &e) < 0)
		log_debug("no sample: %s sandbox=%s", e.message, i->sandbox.id);
}

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
	struct error e = {0};
	bool more = false;

	aside_sweep(f);
	sandbox_dirs_collect(&f->dirs); /* what was killed while it was being made */
	if (store_maintain(f->store, clock_realtime_ns(), NULL, &more, &e) < 0)
		log_warn("tidying the store: %s", e.message);
	(void)uv_timer_start(t, on_maintain, more ? MAINTAIN_SOON_MS : MAINTAIN_MS, 0);
}

/* --- start and stop --- */

int instances_start(struct fleet *f, struct error *e)
{
	int r;

	f->started = true;
	quota_init(&f->quota, &f->options.quota);
	f->lane = (struct lane){.loop = f->loop, .max = LANE_MAX, .key_max = LANE_KEY_MAX};
	f->boots = (struct lane){.loop = f->loop, .max = BOOTS_MAX, .key_max = BOOTS_KEY_MAX};
	f->diffs = (struct lane){.loop = f->loop, .max = DIFFS_MAX, .key_max = DIFFS_KEY_MAX};
	/* none of these fails */
	(void)uv_timer_init(f->loop, &f->deadline);
	(void)uv_timer_init(f->loop, &f->sample);
	(void)uv_timer_init(f->loop, &f->maintain);
	(void)uv_timer_init(f->loop, &f->allowance);
	f->deadline.data = f->sample.data = f->maintain.data = f->allowance.data = f;
	r = kept_init(f, e);
	if (r == 0)
		r = instances_recover(f, e);
	if (r < 0)
		return r;
	instances_deadline_changed(f);
	(void)uv_timer_start(&f->sample, on_sample, STORE_SAMPLE_INTERVAL_S * 1000,
		STORE_SAMPLE_INTERVAL_S * 1000);
	(void)uv_timer_start(&f->maintain, on_maintain, MAINTAIN_FIRST_MS, 0);
	aside_sweep(f);
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
			if (!i->job)		  /* else its job's end does */
				instance_free(i); /* lets go of a living microVM */
		}
}
