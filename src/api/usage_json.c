#include "api/usage_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/tier_json.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "proto/timestamp.h"
#include "store/kept.h"
#include "store/keys.h"
#include "store/tiers.h"
#include "store/usage.h"

#define DAY_NS (UINT64_C(86400) * NS_PER_S)

enum { SANDBOXES_MAX = 1000, DATE_BYTES = 11, DAYS_MAX = 3660 };

struct report {
	struct store *store;
	const char *key_id;	 /* NULL: all */
	uint64_t from_ns, to_ns; /* midnights: of the first day, and after the last day */
	json_t *list;		 /* the part being built */
	struct store_counters total;
	struct store_counters *days; /* indexed by day, from from_ns on */
};

/* --- the period --- */

static void format_date(uint64_t ns, char out[DATE_BYTES])
{
	char text[TIMESTAMP_BYTES];

	(void)snprintf(out, DATE_BYTES, "%.10s", timestamp_format_ns(ns, text)); /* YYYY-MM-DD */
}

/* Reads a day, or with suffix "-01" the first day of a month. Returns 1, or 0 if it is missing. */
static int take_date(const struct operation *o, const char *name, const char *suffix, uint64_t *ret,
	struct error *e)
{
	char date[DATE_BYTES], text[TIMESTAMP_BYTES];
	int r = operation_query(o, name, date, sizeof(date) - strlen(suffix), e);

	if (r <= 0)
		return r;
	(void)snprintf(text, sizeof(text), "%s%sT00:00:00Z", date, suffix); /* fits */
	if (timestamp_parse_ns(text, ret) < 0)
		return error_set(e, ERROR_USAGE, EINVAL, "%s must be of the form %s", name,
			*suffix ? "2026-01" : "2026-01-31");
	return 1;
}

static int take_period(const struct operation *o, struct report *r, struct error *e)
{
	uint64_t month_ns = clock_realtime_ns();
	int month = take_date(o, "month", "-01", &month_ns, e), from, to;

	if (month < 0)
		return month;
	store_month_of(month_ns, &r->from_ns, &r->to_ns);
	from = take_date(o, "from", "", &r->from_ns, e);
	to = from < 0 ? from : take_date(o, "to", "", &r->to_ns, e);
	if (to < 0)
		return to;
	if (month && (from || to))
		return error_set(e, ERROR_USAGE, EINVAL, "give a month, or from and to");
	if (to)
		r->to_ns += DAY_NS;
	else if (r->to_ns <= r->from_ns)
		r->to_ns = r->from_ns + DAY_NS;
	if (r->to_ns <= r->from_ns || r->to_ns - r->from_ns > DAYS_MAX * DAY_NS)
		return error_set(e, ERROR_USAGE, EINVAL,
			"the period must end after it begins, and within %d days", DAYS_MAX);
	return 0;
}

/* --- numbers --- */

static void add(struct store_counters *sum, const struct store_counters *c)
{
	sum->uptime_us += c->uptime_us;
	sum->cpu_us += c->cpu_us;
	sum->memory_mib_s += c->memory_mib_s;
	sum->disk_mib_s += c->disk_mib_s;
	sum->net_in_bytes += c->net_in_bytes;
	sum->net_out_bytes += c->net_out_bytes;
	sum->egress_in_bytes += c->egress_in_bytes;
	sum->egress_out_bytes += c->egress_out_bytes;
	sum->flows_allowed += c->flows_allowed;
	sum->flows_denied += c->flows_denied;
}

static json_t *counters_json(const struct store_counters *c)
{
	return json_pack("{s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "uptimeSeconds",
		(double)c->uptime_us / 1e6, "cpuSeconds", (double)c->cpu_us / 1e6,
		"memoryMiBSeconds", (json_int_t)c->memory_mib_s, "diskMiBSeconds",
		(json_int_t)c->disk_mib_s, "bytesIn", (json_int_t)c->net_in_bytes, "bytesOut",
		(json_int_t)c->net_out_bytes, "networkBytesIn", (json_int_t)c->egress_in_bytes,
		"networkBytesOut", (json_int_t)c->egress_out_bytes, "flowsAllowed",
		(json_int_t)c->flows_allowed, "flowsDenied", (json_int_t)c->flows_denied);
}

static json_t *bill_json(const struct store_bill *b, uint64_t at_ns)
{
	char date[DATE_BYTES], charge[MONEY_BYTES];

	format_date(at_ns, date);
	date[strlen("2026-01")] = '\0';
	return json_pack("{s:s, s:I, s:o, s:I, s:s, s:s, s:b, s:b}", "month", date, "minutes",
		(json_int_t)b->minutes, "tier", b->has_tier ? json_string(b->tier) : json_null(),
		"includedMinutes", (json_int_t)b->included_minutes, "charge",
		money_format(b->charge_micros, charge), "currency", b->currency, "hardStop",
		b->hard_stop, "stopped", b->stopped);
}

/* --- parts, each a list --- */

static int append(struct report *r, json_t *entry, const struct store_counters *c)
{
	if (!entry || json_object_set_new(entry, "total", counters_json(c)) < 0) {
		json_decref(entry);
		return -ENOMEM;
	}
	return json_array_append_new(r->list, entry) < 0 ? -ENOMEM : 0;
}

static int add_key(void *arg, const struct store_key_usage *u)
{
	struct report *r = arg;
	_cleanup_(store_key_freep) struct store_key *k = NULL;
	struct store_bill b;
	struct store_kept kept;
	uint64_t at_ns = r->to_ns - 1;

	if (store_key_get(r->store, u->key_id, &k, NULL) < 0 ||
		store_usage_bill(r->store, u->key_id, at_ns, &b, NULL) < 0)
		return -EIO;
	if (store_kept_count(r->store, u->key_id, &kept, NULL) < 0)
		return -EIO;
	return append(r,
		json_pack("{s:s, s:s, s:o, s:{s:I, s:I}}", "keyID", u->key_id, "name", k->name,
			"bill", bill_json(&b, at_ns), "kept", "count", (json_int_t)kept.count,
			"sizeBytes", (json_int_t)kept.bytes),
		&u->total);
}

/* A key that the query names is listed even without usage, because its bill shows its allowance. */
static int list_keys(struct report *r, struct error *e)
{
	const struct store_key_usage none = {.key_id = r->key_id};
	int err = store_usage_keys(r->store, r->key_id, r->from_ns, r->to_ns, add_key, r, e);

	if (err == 0 && r->key_id && json_array_size(r->list) == 0)
		err = add_key(r, &none);
	return err;
}

static int add_day(void *arg, const struct store_key_usage *u)
{
	struct report *r = arg;

	add(&r->days[(u->day_ns - r->from_ns) / DAY_NS], &u->total); /* within the period */
	return 0;
}

static int add_days_of(void *arg, const struct store_key_usage *u)
{
	struct report *r = arg;

	return store_usage_days(r->store, u->key_id, r->from_ns, r->to_ns, add_day, r, NULL);
}

static int list_days(struct report *r, struct error *e)
{
	static const struct store_counters none;
	size_t n = (size_t)((r->to_ns - r->from_ns) / DAY_NS);
	int err;

	r->days = calloc(n, sizeof(*r->days));
	if (!r->days)
		return operation_no_memory(e);
	err = store_usage_keys(r->store, r->key_id, r->from_ns, r->to_ns, add_days_of, r, e);
	for (size_t i = 0; err == 0 && i < n; i++) {
		char date[DATE_BYTES];

		if (memcmp(&r->days[i], &none, sizeof(none)) == 0)
			continue;
		format_date(r->from_ns + i * DAY_NS, date);
		err = append(r, json_pack("{s:s}", "day", date), &r->days[i]);
	}
	free(r->days);
	return err;
}

static int add_sandbox(void *arg, const struct store_sandbox_usage *u)
{
	struct report *r = arg;

	if (u->first_ns >= r->to_ns)
		return 0;
	return append(r,
		json_pack("{s:s, s:s, s:o, s:o}", "sandboxID", u->sandbox_id, "keyID", u->key_id,
			"firstAt", api_time(u->first_ns), "lastAt", api_time(u->last_ns)),
		&u->total);
}

static int list_sandboxes(struct report *r, struct error *e)
{
	return store_usage_sandboxes(
		r->store, r->key_id, r->from_ns, SANDBOXES_MAX, add_sandbox, r, e);
}

static const struct {
	const char *by, *name;
	int (*list)(struct report *r, struct error *e);
} parts[] = {
	{"key", "keys", list_keys},
	{"day", "days", list_days},
	{"sandbox", "sandboxes", list_sandboxes},
};

/* --- the report --- */

static int add_total(void *arg, const struct store_key_usage *u)
{
	add(&((struct report *)arg)->total, &u->total);
	return 0;
}

static int add_parts(struct report *r, json_t *root, const char *by, struct error *e)
{
	bool found = false;
	int err = 0;

	for (size_t i = 0; err == 0 && i < ARRAY_SIZE(parts); i++) {
		if (*by && strcmp(parts[i].by, by) != 0)
			continue;
		found = true;
		r->list = json_array();
		err = json_object_set_new(root, parts[i].name, r->list);
		if (err == 0)
			err = parts[i].list(r, e);
	}
	return found ? err : error_set(e, ERROR_USAGE, EINVAL, "by must be key, day or sandbox");
}

int usage_report(struct operation *o, const char *key_id, struct error *e)
{
	struct report r = {.store = o->store, .key_id = key_id};
	char from[DATE_BYTES], to[DATE_BYTES], by[16] = "";
	int err = take_period(o, &r, e);

	if (err == 0 && operation_query(o, "by", by, sizeof(by), e) < 0)
		err = -EINVAL;
	if (err == 0)
		err = store_usage_keys(r.store, key_id, r.from_ns, r.to_ns, add_total, &r, e);
	if (err < 0)
		return err;
	format_date(r.from_ns, from);
	format_date(r.to_ns - 1, to);
	o->answer = json_pack(
		"{s:s, s:s, s:o}", "from", from, "to", to, "total", counters_json(&r.total));
	return o->answer ? add_parts(&r, o->answer, by, e) : operation_no_memory(e);
}

int usage_get(struct operation *o, struct error *e)
{
	_cleanup_(store_key_freep) struct store_key *k = NULL;
	char key[STORE_UUID_BYTES];
	int r = operation_query(o, "key", key, sizeof(key), e);

	if (r > 0 && store_key_get(o->store, key, &k, e) < 0)
		return -ENOENT;
	return r < 0 ? r : usage_report(o, r ? key : NULL, e);
}
