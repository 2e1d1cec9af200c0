#include "store/usage.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "store/db.h"
#include "store/maintain.h"
#include "store/text.h"

#define DAY_NS (UINT64_C(86400) * NS_PER_S)

/* A report that claims more than DELTA_MAX is cut, and totals saturate, so that no sum in the
 * database overflows. 2^50 is a petabyte, or 35 years in microseconds. */
#define DELTA_MAX (UINT64_C(1) << 50)
#define TOTAL_MAX (UINT64_C(1) << 62)
#define DAY_MAX	  (UINT64_C(1) << 52)

enum { COUNTERS = 10, SPREAD_DAYS_MAX = 366 };

/* In column order. */
static const size_t counter_fields[COUNTERS] = {
	offsetof(struct store_counters, uptime_us),
	offsetof(struct store_counters, cpu_us),
	offsetof(struct store_counters, memory_mib_s),
	offsetof(struct store_counters, disk_mib_s),
	offsetof(struct store_counters, net_in_bytes),
	offsetof(struct store_counters, net_out_bytes),
	offsetof(struct store_counters, egress_in_bytes),
	offsetof(struct store_counters, egress_out_bytes),
	offsetof(struct store_counters, flows_allowed),
	offsetof(struct store_counters, flows_denied),
};

/* The columns of the counters, in that order. */
#define COUNTER_COLUMNS(p)                                                                         \
	p "uptime_us, " p "cpu_us, " p "memory_mib_s, " p "disk_mib_s, " p "net_in_bytes, " p      \
	  "net_out_bytes, " p "egress_in_bytes, " p "egress_out_bytes, " p "flows_allowed, " p     \
	  "flows_denied"

static uint64_t get(const struct store_counters *c, unsigned i)
{
	uint64_t v;

	memcpy(&v, (const char *)c + counter_fields[i], sizeof(v));
	return v;
}

static void set(struct store_counters *c, unsigned i, uint64_t v)
{
	memcpy((char *)c + counter_fields[i], &v, sizeof(v));
}

static void bind_counters(struct query *q, const struct store_counters *c)
{
	for (unsigned i = 0; i < COUNTERS; i++)
		query_u64(q, get(c, i));
}

static void read_counters(struct query *q, struct store_counters *c)
{
	for (unsigned i = 0; i < COUNTERS; i++)
		set(c, i, row_u64(q));
}

/* A row of usage_sandboxes. */
struct account {
	uint64_t run, first_ns, last_ns;
	struct store_counters total, last;
};

static int read_account(struct store *s, const char *sandbox_id, struct account *a, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_USAGE_GET,
		"SELECT run, first_ns, last_ns, " COUNTER_COLUMNS("total_") ", " COUNTER_COLUMNS(
			"last_") " FROM usage_sandboxes WHERE sandbox_id = ?");
	int r;

	query_text(&q, sandbox_id);
	r = query_step(&q, e);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	a->run = row_u64(&q);
	a->first_ns = row_u64(&q);
	a->last_ns = row_u64(&q);
	read_counters(&q, &a->total);
	read_counters(&q, &a->last);
	return 0;
}

static int write_account(struct store *s, const char *sandbox_id, const char *key_id,
	const struct account *a, struct error *e)
{
	struct query q = db_query(s, STMT_USAGE_PUT,
		"INSERT INTO usage_sandboxes (sandbox_id, key_id, run, first_ns, "
		"last_ns, " COUNTER_COLUMNS("total_") ", " COUNTER_COLUMNS(
			"last_") ") VALUES "
				 "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
				 "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
				 "ON CONFLICT (sandbox_id) DO UPDATE SET run = excluded.run, "
				 "last_ns = excluded.last_ns, "
				 "total_uptime_us = excluded.total_uptime_us, "
				 "total_cpu_us = excluded.total_cpu_us, "
				 "total_memory_mib_s = excluded.total_memory_mib_s, "
				 "total_disk_mib_s = excluded.total_disk_mib_s, "
				 "total_net_in_bytes = excluded.total_net_in_bytes, "
				 "total_net_out_bytes = excluded.total_net_out_bytes, "
				 "total_egress_in_bytes = excluded.total_egress_in_bytes, "
				 "total_egress_out_bytes = excluded.total_egress_out_bytes, "
				 "total_flows_allowed = excluded.total_flows_allowed, "
				 "total_flows_denied = excluded.total_flows_denied, "
				 "last_uptime_us = excluded.last_uptime_us, "
				 "last_cpu_us = excluded.last_cpu_us, "
				 "last_memory_mib_s = excluded.last_memory_mib_s, "
				 "last_disk_mib_s = excluded.last_disk_mib_s, "
				 "last_net_in_bytes = excluded.last_net_in_bytes, "
				 "last_net_out_bytes = excluded.last_net_out_bytes, "
				 "last_egress_in_bytes = excluded.last_egress_in_bytes, "
				 "last_egress_out_bytes = excluded.last_egress_out_bytes, "
				 "last_flows_allowed = excluded.last_flows_allowed, "
				 "last_flows_denied = excluded.last_flows_denied");

	query_text(&q, sandbox_id);
	query_text(&q, key_id);
	query_u64(&q, a->run);
	query_u64(&q, a->first_ns);
	query_u64(&q, a->last_ns);
	bind_counters(&q, &a->total);
	bind_counters(&q, &a->last);
	return query_run(&q, NULL, e);
}

static int add_to_day(struct store *s, const char *key_id, uint64_t day,
	const struct store_counters *c, struct error *e)
{
	_Static_assert(DAY_MAX == 4503599627370496, "the number in the statement");
	struct query q = db_query(s, STMT_USAGE_DAY,
		"INSERT INTO usage_days (key_id, day, " COUNTER_COLUMNS(
			"") ") VALUES "
			    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
			    "ON CONFLICT (key_id, day) DO UPDATE SET "
			    "uptime_us = min(uptime_us + excluded.uptime_us, 4503599627370496), "
			    "cpu_us = min(cpu_us + excluded.cpu_us, 4503599627370496), "
			    "memory_mib_s = min(memory_mib_s + excluded.memory_mib_s, "
			    "4503599627370496), "
			    "disk_mib_s = min(disk_mib_s + excluded.disk_mib_s, 4503599627370496), "
			    "net_in_bytes = min(net_in_bytes + excluded.net_in_bytes, "
			    "4503599627370496), "
			    "net_out_bytes = min(net_out_bytes + excluded.net_out_bytes, "
			    "4503599627370496), "
			    "egress_in_bytes = min(egress_in_bytes + excluded.egress_in_bytes, "
			    "4503599627370496), "
			    "egress_out_bytes = min(egress_out_bytes + excluded.egress_out_bytes, "
			    "4503599627370496), "
			    "flows_allowed = min(flows_allowed + excluded.flows_allowed, "
			    "4503599627370496), "
			    "flows_denied = min(flows_denied + excluded.flows_denied, "
			    "4503599627370496)");

	query_text(&q, key_id);
	query_u64(&q, day);
	bind_counters(&q, c);
	return query_run(&q, NULL, e);
}

/* Takes from *left the share of [at, to) in the remaining time [at, end). */
static struct store_counters take_part(
	struct store_counters *left, uint64_t at_ns, uint64_t to_ns, uint64_t end_ns)
{
	struct store_counters part = *left;

	if (to_ns >= end_ns) {
		*left = (struct store_counters){0};
		return part;
	}
	for (unsigned i = 0; i < COUNTERS; i++) {
		uint64_t all = get(left, i);
		uint64_t v =
			(uint64_t)((unsigned __int128)all * (to_ns - at_ns) / (end_ns - at_ns));

		set(&part, i, v);
		set(left, i, all - v);
	}
	return part;
}

static int add_to_days(struct store *s, const char *key_id, uint64_t from_ns, uint64_t to_ns,
	struct store_counters growth, struct error *e)
{
	uint64_t at = from_ns;
	int r = 0;

	if (to_ns <= from_ns || to_ns - from_ns > SPREAD_DAYS_MAX * DAY_NS)
		at = to_ns; /* the clock was set: count all of it today */
	do {
		uint64_t day = at / DAY_NS, next = (day + 1) * DAY_NS;
		struct store_counters part = take_part(&growth, at, next, to_ns);

		r = add_to_day(s, key_id, day, &part, e);
		at = next;
	} while (r == 0 && at < to_ns);
	return r;
}

/* Returns the growth since the last report, and stores `absolute` in *a. */
static struct store_counters absorb(
	struct account *a, uint64_t run, const struct store_counters *absolute)
{
	struct store_counters growth = {0};

	if (a->run != run)
		a->last = (struct store_counters){0};
	a->run = run;
	for (unsigned i = 0; i < COUNTERS; i++) {
		uint64_t now = get(absolute, i), before = get(&a->last, i);
		uint64_t d = now > before ? now - before : 0;

		if (d > DELTA_MAX)
			d = DELTA_MAX;
		set(&growth, i, d);
		set(&a->last, i, now > before ? now : before);
		set(&a->total, i,
			get(&a->total, i) + d < TOTAL_MAX ? get(&a->total, i) + d : TOTAL_MAX);
	}
	return growth;
}

int store_usage_record(struct store *s, const char *sandbox_id, const char *key_id, uint64_t run,
	const struct store_counters *absolute, uint64_t at_ns, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	uint64_t uptime_ns =
		absolute->uptime_us < TOTAL_MAX / 1000 ? absolute->uptime_us * 1000 : 0;
	struct account a = {0};
	struct store_counters growth;
	uint64_t since_ns;
	int r = text_check("sandbox id", sandbox_id, STORE_ID_MAX, e);

	run &= INT64_MAX; /* the range of a column */
	if (r == 0)
		r = txn_begin(&t, s, e);
	if (r < 0)
		return r;
	r = read_account(s, sandbox_id, &a, e);
	if (r < 0 && r != -ENOENT)
		return r;
	/* The first report of a run reaches back to the run's start. */
	since_ns = a.last_ns;
	if (r == -ENOENT || a.run != run)
		since_ns = at_ns > uptime_ns ? at_ns - uptime_ns : at_ns;
	if (since_ns < a.last_ns)
		since_ns = a.last_ns;
	if (r == -ENOENT)
		a.first_ns = since_ns;
	growth = absorb(&a, run, absolute);
	a.last_ns = at_ns > a.last_ns ? at_ns : a.last_ns;
	r = write_account(s, sandbox_id, key_id, &a, e);
	if (r == 0)
		r = add_to_days(s, key_id, since_ns, at_ns, growth, e);
	return r < 0 ? r : txn_commit(&t, false, e);
}

int store_usage_of_run(struct store *s, const char *sandbox_id, uint64_t run,
	struct store_counters *ret, struct error *e)
{
	struct account a = {0};
	int r = read_account(s, sandbox_id, &a, e);

	if (r < 0 && r != -ENOENT)
		return r;
	*ret = r == 0 && a.run == (run & INT64_MAX) ? a.last : (struct store_counters){0};
	return 0;
}

#define ACCOUNT_COLUMNS                                                                            \
	"SELECT sandbox_id, key_id, first_ns, last_ns, " COUNTER_COLUMNS(                          \
		"total_") " FROM usage_sandboxes WHERE "

int store_usage_sandboxes(struct store *s, const char *key_id, uint64_t from_ns, uint32_t limit,
	int (*each)(void *arg, const struct store_sandbox_usage *u), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q =
		key_id ? db_query(s, STMT_USAGE_BY_KEY,
				 ACCOUNT_COLUMNS
				 "key_id = ? AND last_ns >= ? ORDER BY last_ns DESC LIMIT ?")
		       : db_query(s, STMT_USAGE_ALL,
				 ACCOUNT_COLUMNS "last_ns >= ? ORDER BY last_ns DESC LIMIT ?");
	int r;

	if (key_id)
		query_text(&q, key_id);
	query_u64(&q, from_ns);
	query_u64(&q, limit);
	while ((r = query_step(&q, e)) > 0) {
		struct store_sandbox_usage u;

		u.sandbox_id = row_text(&q);
		u.key_id = row_text(&q);
		u.first_ns = row_u64(&q);
		u.last_ns = row_u64(&q);
		read_counters(&q, &u.total);
		r = each(arg, &u);
		if (r)
			break;
	}
	return r;
}

#define SUMS                                                                                       \
	"sum(uptime_us), sum(cpu_us), sum(memory_mib_s), sum(disk_mib_s), sum(net_in_bytes), "     \
	"sum(net_out_bytes), sum(egress_in_bytes), sum(egress_out_bytes), sum(flows_allowed), "    \
	"sum(flows_denied)"

/* Binds the days that begin in [from_ns, to_ns), for "day >= ? AND day < ?". */
static void bind_days(struct query *q, uint64_t from_ns, uint64_t to_ns)
{
	query_u64(q, from_ns / DAY_NS + (from_ns % DAY_NS != 0));
	query_u64(q, to_ns / DAY_NS + (to_ns % DAY_NS != 0));
}

static int give_usage(struct query *q, bool has_day,
	int (*each)(void *arg, const struct store_key_usage *u), void *arg, struct error *e)
{
	int r;

	while ((r = query_step(q, e)) > 0) {
		struct store_key_usage u = {0};

		u.key_id = row_text(q);
		if (has_day)
			u.day_ns = row_u64(q) * DAY_NS;
		read_counters(q, &u.total);
		if (!u.key_id) /* the sum of no rows */
			continue;
		r = each(arg, &u);
		if (r)
			break;
	}
	return r;
}

int store_usage_keys(struct store *s, const char *key_id, uint64_t from_ns, uint64_t to_ns,
	int (*each)(void *arg, const struct store_key_usage *u), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q =
		key_id ? db_query(s, STMT_USAGE_KEY,
				 "SELECT key_id, " SUMS " FROM usage_days "
				 "WHERE key_id = ? AND day >= ? AND day < ?")
		       : db_query(s, STMT_USAGE_KEYS,
				 "SELECT k.id, " SUMS " FROM keys k CROSS JOIN usage_days u "
				 "ON u.key_id = k.id AND day >= ? AND day < ? GROUP BY k.id");

	if (key_id)
		query_text(&q, key_id);
	bind_days(&q, from_ns, to_ns);
	return give_usage(&q, false, each, arg, e);
}

int store_usage_days(struct store *s, const char *key_id, uint64_t from_ns, uint64_t to_ns,
	int (*each)(void *arg, const struct store_key_usage *u), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_USAGE_DAYS,
		"SELECT key_id, day, " COUNTER_COLUMNS(
			"") " FROM usage_days "
			    "WHERE key_id = ? AND day >= ? AND day < ? ORDER BY day");

	query_text(&q, key_id);
	bind_days(&q, from_ns, to_ns);
	return give_usage(&q, true, each, arg, e);
}

void store_month_of(uint64_t t_ns, uint64_t *ret_from_ns, uint64_t *ret_to_ns)
{
	time_t t = (time_t)(t_ns / NS_PER_S);
	struct tm tm;

	(void)gmtime_r(&t, &tm); /* fits: year 2554 at most */
	tm = (struct tm){.tm_year = tm.tm_year, .tm_mon = tm.tm_mon, .tm_mday = 1};
	*ret_from_ns = (uint64_t)timegm(&tm) * NS_PER_S;
	tm = (struct tm){.tm_year = tm.tm_year, .tm_mon = tm.tm_mon + 1, .tm_mday = 1};
	*ret_to_ns = (uint64_t)timegm(&tm) * NS_PER_S;
}

int usage_prune(struct store *s, uint64_t before_ns, bool *more, struct error *e)
{
	struct query q = db_query(s, STMT_USAGE_PRUNE,
		"DELETE FROM usage_sandboxes WHERE sandbox_id IN ("
		"SELECT sandbox_id FROM usage_sandboxes WHERE last_ns < ? LIMIT ?)");

	query_u64(&q, before_ns);
	query_u64(&q, MAINTAIN_ROWS);
	return query_run_slice(&q, MAINTAIN_ROWS, more, e);
}
