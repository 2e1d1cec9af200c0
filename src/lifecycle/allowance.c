#include "lifecycle/allowance.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "fleet/meter.h"
#include "lifecycle/instance_end.h"
#include "lifecycle/instance_pause.h"
#include "sandbox/backend.h"
#include "store/tiers.h"
#include "store/usage.h"

enum {
	SOON_MS = 10 * 1000, /* the regular calls find later ones */
	PAUSE_AGAIN_S = 60,
	ROUNDING_US = 1000000, /* deadlines and uptime start at slightly different instants */
};

int allowance_check(struct fleet *f, const char *key_id, struct error *e)
{
	struct store_bill b;
	int r = store_usage_bill(f->store, key_id, clock_realtime_ns(), &b, e);

	if (r == 0 && b.stopped)
		r = error_set(e, ERROR_FORBIDDEN, EDQUOT,
			"the %llu minutes that tier '%s' includes in a month are used up: the "
			"operator can raise them (mayfly tiers set), or they begin anew with the "
			"next month",
			(unsigned long long)b.included_minutes, b.tier);
	return r;
}

uint64_t allowance_clamp(struct fleet *f, const char *key_id, uint64_t end_ns)
{
	uint64_t now = clock_realtime_ns(), month_begin, month_end, last;
	struct store_bill b;

	if (store_usage_bill(f->store, key_id, now, &b, NULL) < 0 || b.left_us == UINT64_MAX)
		return end_ns; /* if it cannot be read, it is enforced later */
	store_month_of(now, &month_begin, &month_end);
	if (b.left_us >= (month_end - now) / NS_PER_US)
		return end_ns; /* a new month begins before that */
	last = now + b.left_us * NS_PER_US;
	return last < end_ns ? last : end_ns;
}

const char *allowance_reason(struct fleet *f, const char *key_id)
{
	struct store_bill b;

	if (store_usage_bill(f->store, key_id, clock_realtime_ns(), &b, NULL) < 0 || !b.hard_stop)
		return NULL;
	meter_report_each(f, key_id, NS_PER_S); /* many may end together */
	if (store_usage_bill(f->store, key_id, clock_realtime_ns(), &b, NULL) < 0)
		return NULL;
	return b.left_us < ROUNDING_US ? "allowance" : NULL;
}

/* --- enforcing --- */

struct ending {
	const char *key_id;
	unsigned running;
	bool end;
};

bool allowance_may_pause(const struct instance *i)
{
	return i->fleet->options.backend->pause && !i->transient;
}

/* A sandbox that cannot be paused now, for example because the disk is full, is tried again later.
 * Its state is not ours to destroy. */
static void pause_one(struct instance *i)
{
	uint64_t now = clock_monotonic_ns();
	struct error e = {0};

	if (now < i->pause_again_ns)
		return;
	i->pause_again_ns = now + PAUSE_AGAIN_S * NS_PER_S;
	log_info("the key's included minutes are used up, the sandbox is paused sandbox=%s",
		i->sandbox.id);
	if (instance_pause(i, PAUSE_MEMORY, NULL, NULL, &e) < 0)
		log_info("cannot pause a sandbox now: %s sandbox=%s", e.message, i->sandbox.id);
}

static void end_one(struct instance *i)
{
	struct error e = {0};

	i->end_reason = "allowance";
	log_info("the key's included minutes are used up sandbox=%s", i->sandbox.id);
	if (instance_end(i, STORE_EVENT_TIMED_OUT, &e) < 0)
		log_error("cannot end a sandbox: %s sandbox=%s", e.message, i->sandbox.id);
}

static int visit(struct instance *i, void *arg)
{
	struct ending *k = arg;

	if (strcmp(i->key_id, k->key_id) != 0)
		return 0;
	k->running++;
	if (!k->end)
		return 0;
	if (allowance_may_pause(i))
		pause_one(i);
	else
		end_one(i);
	return 0;
}

/* Returns the milliseconds until the key must be checked again. */
static uint64_t enforce_key(struct fleet *f, const char *key_id)
{
	struct ending k = {.key_id = key_id};
	struct store_bill b;
	struct error e = {0};

	meter_report_each(f, key_id, 0);
	if (store_usage_bill(f->store, key_id, clock_realtime_ns(), &b, &e) < 0) {
		log_error("cannot tell what a key has left: %s key=%s", e.message, key_id);
		return SOON_MS;
	}
	k.end = b.stopped;
	(void)instance_each(f, visit, &k); /* always 0 */
	if (b.stopped || !k.running)
		return SOON_MS;
	return b.left_us / k.running / 1000 + 1;
}

static void on_time(uv_timer_t *t)
{
	allowance_enforce(t->data);
}

static void look_again(struct fleet *f, uint64_t ms)
{
	uv_timer_t *t = &f->allowance;

	if (ms < SOON_MS && (!uv_is_active((uv_handle_t *)t) || uv_timer_get_due_in(t) > ms))
		(void)uv_timer_start(t, on_time, ms, 0); /* fails only without a callback */
}

void allowance_enforce_key(struct fleet *f, const char *key_id)
{
	struct store_bill b;

	if (store_usage_bill(f->store, key_id, clock_realtime_ns(), &b, NULL) == 0 && b.hard_stop)
		look_again(f, enforce_key(f, key_id));
}

static int add_key(void *arg, const char *key_id)
{
	return json_array_append_new(arg, json_string(key_id)) < 0 ? -ENOMEM : 0;
}

void allowance_enforce(struct fleet *f)
{
	json_t *keys = json_array(), *key;
	struct error e = {0};
	size_t n;

	if (store_tier_stopping_keys(f->store, add_key, keys, &e) < 0)
		log_error("cannot look for used up allowances: %s", e.message);
	json_array_foreach(keys, n, key) look_again(f, enforce_key(f, json_string_value(key)));
	json_decref(keys);
}
