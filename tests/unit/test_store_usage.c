/* src/store/usage, tiers, events, samples, webhooks: metering, its rules, queues and retention. */
#include "test.h"

#include "store/db.h"
#include "store/events.h"
#include "store/samples.h"
#include "store/tiers.h"
#include "store/usage.h"
#include "store/webhooks.h"
#include "test_store_fixture.h"

#define DAY_NS	  (UINT64_C(86400) * NS_PER_S)
#define MINUTE_US UINT64_C(60000000)

static void assert_counters(
	const struct store_counters *c, uint64_t uptime, uint64_t cpu, uint64_t out)
{
	assert_int_equal(c->uptime_us, uptime);
	assert_int_equal(c->cpu_us, cpu);
	assert_int_equal(c->net_out_bytes, out);
}

static void record(struct fixture *f, const char *id, uint64_t run, uint64_t uptime_us,
	uint64_t cpu_us, uint64_t out, uint64_t at_ns)
{
	struct store_counters c = {.uptime_us = uptime_us, .cpu_us = cpu_us, .net_out_bytes = out};

	ok(f, store_usage_record(f->s, id, f->key, run, &c, at_ns, &f->e));
}

struct wanted {
	const char *id;
	struct store_counters total;
	bool found;
};

static int keep_wanted(void *arg, const struct store_sandbox_usage *u)
{
	struct wanted *w = arg;

	if (strcmp(u->sandbox_id, w->id) == 0) {
		w->total = u->total;
		w->found = true;
	}
	return 0;
}

static struct wanted look_up(struct fixture *f, const char *id)
{
	struct wanted w = {.id = id};

	ok(f, store_usage_sandboxes(f->s, NULL, 0, 1000, keep_wanted, &w, &f->e));
	return w;
}

static struct store_counters of_sandbox(struct fixture *f, const char *id)
{
	struct wanted w = look_up(f, id);

	assert_true(w.found);
	return w.total;
}

static int keep_usage(void *arg, const struct store_key_usage *u)
{
	*(struct store_counters *)arg = u->total;
	return 0;
}

static struct store_counters of_key(struct fixture *f, uint64_t from_ns, uint64_t to_ns)
{
	struct store_counters c = {0};

	ok(f, store_usage_keys(f->s, f->key, from_ns, to_ns, keep_usage, &c, &f->e));
	return c;
}

static void test_reports_add_what_is_new(void **state)
{
	struct fixture *f = *state;
	struct store_counters c;

	record(f, "i1", 1, 1000, 100, 10, T0);
	record(f, "i1", 1, 1000, 100, 10, T0); /* the same again: a crash after the commit */
	record(f, "i1", 1, 1500, 90, 30, T0 + 500000); /* cpu went back: counts as unchanged */
	record(f, "i1", 1, 1600, 110, 30, T0 + 600000);
	c = of_sandbox(f, "i1");
	assert_counters(&c, 1600, 110, 30);
	record(f, "i1", 2, 50, 5, 1, T0 + NS_PER_S); /* resumed: counters begin at 0 */
	record(f, "i1", 2, 60, 6, 2, T0 + NS_PER_S + 10000);
	c = of_sandbox(f, "i1");
	assert_counters(&c, 1660, 116, 32);
	ok(f, store_usage_of_run(f->s, "i1", 2, &c, &f->e)); /* where a new daemon goes on */
	assert_counters(&c, 60, 6, 2);
	ok(f, store_usage_of_run(f->s, "i1", 3, &c, &f->e));
	assert_counters(&c, 0, 0, 0);
	ok(f, store_usage_of_run(f->s, "i9", 1, &c, &f->e));
	assert_counters(&c, 0, 0, 0);
	record(f, "i2", 1, 40, 4, 0, T0);
	c = of_key(f, T0 - DAY_NS, T0 + DAY_NS);
	assert_counters(&c, 1700, 120, 32);
	assert_false(look_up(f, "i3").found);
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_usage_record(f->s, "i3", "no-key", 1, &c, T0, &f->e));
	fixture_reopen(f);
	c = of_key(f, T0 - DAY_NS, T0 + DAY_NS);
	assert_counters(&c, 1700, 120, 32);
}

static void test_reports_are_spread_over_days(void **state)
{
	struct fixture *f = *state;
	uint64_t midnight = T0 / DAY_NS * DAY_NS + DAY_NS, day_us = DAY_NS / 1000;
	struct store_counters c;

	/* Two days and a half of uptime, half a day of it before the first midnight; the daemon was
	 * down meanwhile. */
	record(f, "i1", 1, 5 * day_us / 2, 1000, 5, midnight + 2 * DAY_NS);
	c = of_key(f, midnight - DAY_NS, midnight);
	assert_counters(&c, day_us / 2, 200, 1);
	c = of_key(f, midnight, midnight + DAY_NS);
	assert_counters(&c, day_us, 400, 2);
	c = of_key(f, midnight - DAY_NS, midnight + 3 * DAY_NS);
	assert_counters(&c, 5 * day_us / 2, 1000, 5); /* nothing is lost by rounding */
	/* A clock that went back: counted today, not in the past. */
	record(f, "i1", 1, 5 * day_us / 2 + 7, 1000, 5, midnight - DAY_NS);
	c = of_key(f, midnight - DAY_NS, midnight + 3 * DAY_NS);
	assert_counters(&c, 5 * day_us / 2 + 7, 1000, 5);
}

static void test_absurd_reports_do_not_overflow(void **state)
{
	struct fixture *f = *state;
	struct store_counters c = {
		UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};

	for (uint64_t run = 0; run < 50; run++)
		ok(f, store_usage_record(f->s, "i1", f->key, UINT64_MAX - run, &c, T0, &f->e));
	c = of_sandbox(f, "i1");
	assert_int_equal(c.uptime_us, UINT64_C(50) << 50);
	c = of_key(f, 0, T0 + 400 * DAY_NS);
	assert_int_equal(c.net_in_bytes, UINT64_C(1) << 52);
}

static int keep_days(void *arg, const struct store_key_usage *u)
{
	uint64_t *last = arg;

	assert_true(u->day_ns > *last && u->day_ns % DAY_NS == 0);
	*last = u->day_ns;
	return 0;
}

static int count_sandbox_usage(void *arg, const struct store_sandbox_usage *u)
{
	return fixture_count(arg, u);
}

static int count_key_usage(void *arg, const struct store_key_usage *u)
{
	return fixture_count(arg, u);
}

static void test_reports_of_periods(void **state)
{
	struct fixture *f = *state;
	char key[STORE_UUID_BYTES], secret[STORE_KEY_SECRET_BYTES];
	struct store_counters c = {.uptime_us = 1};
	uint64_t last = 0;
	unsigned n = 0;

	ok(f, store_key_create(
		      f->s, &(struct store_key_spec){.name = "k2"}, T0, key, secret, &f->e));
	for (unsigned i = 0; i < 40; i++)
		record(f, "i1", 1, i, i, i, T0 + i * DAY_NS);
	ok(f, store_usage_days(f->s, f->key, T0, T0 + 40 * DAY_NS, keep_days, &last, &f->e));
	assert_int_equal(last, (T0 + 39 * DAY_NS) / DAY_NS * DAY_NS);
	ok(f, store_usage_keys(f->s, NULL, 0, T0 + 99 * DAY_NS, count_key_usage, &n, &f->e));
	assert_int_equal(n, 1);
	ok(f, store_usage_record(f->s, "i2", key, 1, &c, T0, &f->e));
	n = 0;
	ok(f, store_usage_keys(f->s, NULL, 0, T0 + 99 * DAY_NS, count_key_usage, &n, &f->e));
	assert_int_equal(n, 2);
	n = 0;
	ok(f, store_usage_keys(f->s, f->key, 0, T0 - DAY_NS, count_key_usage, &n, &f->e));
	assert_int_equal(n, 0);
	ok(f, store_usage_sandboxes(f->s, NULL, 0, 10, count_sandbox_usage, &n, &f->e));
	assert_int_equal(n, 2);
	n = 0;
	ok(f, store_usage_sandboxes(f->s, key, 0, 10, count_sandbox_usage, &n, &f->e));
	assert_int_equal(n, 1);
	n = 0;
	ok(f, store_usage_sandboxes(f->s, NULL, T0 + 1, 10, count_sandbox_usage, &n, &f->e));
	assert_int_equal(n, 1);
}

static void test_months(void **state)
{
	uint64_t from, to;

	store_month_of(T0, &from, &to); /* January 2027 */
	assert_int_equal(from / NS_PER_S, 1798761600);
	assert_int_equal(to / NS_PER_S, 1801440000);
	store_month_of(to, &from, &to); /* February */
	assert_int_equal(to - from, 28 * DAY_NS);
	store_month_of(UINT64_C(1830297599) * NS_PER_S, &from, &to); /* last second of 2027 */
	assert_int_equal(to / NS_PER_S, 1830297600);
}

static int count_tier(void *arg, const struct store_tier *t)
{
	return fixture_count(arg, t);
}

static void test_bill(void **state)
{
	struct fixture *f = *state;
	struct store_tier tier = {.name = "pro",
		.included_minutes = 10,
		.price_micros_per_minute = 250,
		.currency = "EUR"};
	struct store_limits limits = {.tier = "pro"};
	struct store_bill b;
	unsigned n = 0;

	record(f, "i1", 1, 12 * MINUTE_US + 1, 0, 0, T0);
	ok(f, store_usage_bill(f->s, f->key, T0, &b, &f->e));
	assert_true(!b.has_tier && !b.stopped && b.charge_micros == 0 && b.minutes == 13);
	ok(f, store_tier_put(f->s, &tier, &f->e));
	ok(f, store_key_set_limits(f->s, f->key, &limits, &f->e));
	ok(f, store_usage_bill(f->s, f->key, T0, &b, &f->e));
	assert_true(b.has_tier && !b.stopped && b.included_minutes == 10);
	assert_int_equal(b.charge_micros, 750);
	assert_string_equal(b.tier, "pro");
	assert_string_equal(b.currency, "EUR");
	assert_int_equal(b.left_us, UINT64_MAX);
	tier.hard_stop = true;
	tier.price_micros_per_minute = UINT64_MAX;
	ok(f, store_tier_put(f->s, &tier, &f->e));
	ok(f, store_usage_bill(f->s, f->key, T0, &b, &f->e));
	assert_true(b.stopped);
	tier.included_minutes = 14;
	ok(f, store_tier_put(f->s, &tier, &f->e));
	ok(f, store_usage_bill(f->s, f->key, T0, &b, &f->e));
	assert_true(!b.stopped && b.charge_micros == 0);
	assert_int_equal(b.left_us, 2 * MINUTE_US - 1);
	tier.included_minutes = 13; /* the last minute has begun and is not over */
	ok(f, store_tier_put(f->s, &tier, &f->e));
	ok(f, store_usage_bill(f->s, f->key, T0, &b, &f->e));
	assert_true(!b.stopped && b.left_us == MINUTE_US - 1);
	ok(f, store_usage_bill(f->s, f->key, T0 + 31 * DAY_NS, &b, &f->e)); /* next month */
	assert_int_equal(b.minutes, 0);
	ok(f, store_tier_list(f->s, count_tier, &n, &f->e));
	assert_int_equal(n, 1);
	tier.currency = "a currency without an end";
	refused(f, EINVAL, ERROR_USAGE, store_tier_put(f->s, &tier, &f->e));
	tier.currency = NULL;
	tier.name = "";
	refused(f, EINVAL, ERROR_USAGE, store_tier_put(f->s, &tier, &f->e));
}

/* ---- events ---- */

static void event(struct fixture *f, const char *id, enum store_event_type type, uint64_t at_ns)
{
	struct store_event ev = {.type = type,
		.at_ns = at_ns,
		.sandbox_id = id,
		.key_id = f->key,
		.template_id = "base",
		.details_json = "{\"reason\":\"it's over\"}"};

	ok(f, store_event_add(f->s, &ev, NULL, &f->e));
}

struct seen {
	uint64_t ids[64];
	unsigned count;
};

static int see_event(void *arg, const struct store_event *ev)
{
	struct seen *seen = arg;

	assert_string_equal(ev->details_json, "{\"reason\":\"it's over\"}");
	assert_string_equal(ev->template_id, "base");
	seen->ids[seen->count++] = ev->id;
	return 0;
}

static unsigned events(struct fixture *f, struct store_event_filter filter, struct seen *seen)
{
	seen->count = 0;
	if (!filter.limit)
		filter.limit = 50;
	ok(f, store_event_list(f->s, &filter, see_event, seen, &f->e));
	return seen->count;
}

/* Fills a key's share by other means: 100,000 calls take long. */
static void fill_events(struct fixture *f)
{
	char *sql = sqlite3_mprintf(
		"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT %d) "
		"INSERT INTO events (type, at_ns, sandbox_id, key_id, template_id, details_json) "
		"SELECT %d, 1, 'i', %Q, 'base', '{\"reason\":\"it''s over\"}' FROM n; "
		"UPDATE event_totals SET count = count + %d",
		STORE_EVENTS_KEY_MAX - 1, STORE_EVENT_PAUSED, f->key, STORE_EVENTS_KEY_MAX - 1);

	assert_int_equal(sqlite3_exec(f->s->db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_free(sql);
}

static void test_events_of_key(void **state)
{
	struct fixture *f = *state;
	const struct store_event_filter newest = {.key_id = f->key, .limit = 2};
	struct store_event_filter last = {
		.key_id = f->key, .limit = 2, .offset = STORE_EVENTS_KEY_MAX - 1};
	const struct store_retention keep = {.events_max = 1};
	struct seen seen;
	uint64_t oldest;
	bool more;

	event(f, "ia", STORE_EVENT_CREATED, T0);
	fill_events(f);
	assert_int_equal(events(f, last, &seen), 1);
	oldest = seen.ids[0];
	event(f, "ib", STORE_EVENT_KILLED, T0 + 1); /* the oldest makes room */
	assert_int_equal(events(f, last, &seen), 1);
	assert_int_equal(seen.ids[0], oldest + 1);
	assert_int_equal(events(f, newest, &seen), 2);
	last.types = STORE_EVENT_BIT(STORE_EVENT_CREATED);
	last.offset = 0;
	assert_int_equal(events(f, last, &seen), 0);
	last.offset = STORE_EVENTS_KEY_MAX + 1;
	refused(f, EINVAL, ERROR_USAGE, store_event_list(f->s, &last, see_event, &seen, &f->e));
	/* what is removed for its age makes room, too */
	ok(f, store_maintain(f->s, T0, &keep, &more, &f->e));
	event(f, "ib", STORE_EVENT_KILLED, T0 + 1);
	last = (struct store_event_filter){.key_id = f->key, .limit = 1, .ascending = true};
	assert_int_equal(events(f, last, &seen), 1);
	oldest = seen.ids[0];
	event(f, "ib", STORE_EVENT_KILLED, T0 + 1);
	assert_int_equal(events(f, last, &seen), 1);
	assert_int_equal(seen.ids[0], oldest);
}

static void test_events(void **state)
{
	struct fixture *f = *state;
	struct store_event bad = {.type = STORE_EVENT_TYPES_, .sandbox_id = "i", .key_id = f->key};
	struct seen seen, page;

	for (unsigned i = 0; i < 10; i++)
		event(f, i % 2 ? "ia" : "ib", i % 5 ? STORE_EVENT_PAUSED : STORE_EVENT_CREATED,
			T0 + i);
	assert_int_equal(events(f, (struct store_event_filter){.ascending = true}, &seen), 10);
	for (unsigned i = 1; i < 10; i++)
		assert_true(seen.ids[i] > seen.ids[i - 1]);
	assert_int_equal(events(f, (struct store_event_filter){.limit = 3}, &page), 3);
	assert_true(page.ids[0] == seen.ids[9] && page.ids[2] == seen.ids[7]);
	assert_int_equal(
		events(f, (struct store_event_filter){.limit = 3, .cursor = page.ids[2]}, &page),
		3);
	assert_int_equal(page.ids[0], seen.ids[6]);
	assert_int_equal(
		events(f,
			(struct store_event_filter){
				.ascending = true, .sandbox_id = "ia", .cursor = seen.ids[5]},
			&page),
		2);
	assert_int_equal(
		events(f, (struct store_event_filter){.sandbox_id = "ia", .key_id = "other"},
			&page),
		0);
	assert_int_equal(events(f, (struct store_event_filter){.key_id = f->key}, &page), 10);
	assert_int_equal(
		events(f, (struct store_event_filter){.key_id = f->key, .ascending = true}, &page),
		10);
	assert_int_equal(events(f, (struct store_event_filter){.since_ns = T0 + 8}, &page), 2);
	assert_int_equal(
		events(f,
			(struct store_event_filter){.types = STORE_EVENT_BIT(STORE_EVENT_CREATED)},
			&page),
		2);
	refused(f, EINVAL, ERROR_INTERNAL, store_event_add(f->s, &bad, NULL, &f->e));
	bad.type = STORE_EVENT_KILLED;
	bad.details_json = "{\"a\"";
	refused(f, EINVAL, ERROR_USAGE, store_event_add(f->s, &bad, NULL, &f->e));
}

static void test_event_names(void **state)
{
	for (unsigned i = 0; i < STORE_EVENT_TYPES_; i++) {
		enum store_event_type type = STORE_EVENT_TYPES_;
		const char *name = store_event_type_name((enum store_event_type)i);

		assert_int_equal(store_event_type_parse(name, &type), 0);
		assert_int_equal(type, i);
	}
	assert_int_equal(store_event_type_parse("x", &(enum store_event_type){0}), -EINVAL);
}

static void maintain(struct fixture *f, uint64_t now_ns, const struct store_retention *r)
{
	bool more = true;

	while (more)
		ok(f, store_maintain(f->s, now_ns, r, &more, &f->e));
}

static void test_event_retention(void **state)
{
	struct fixture *f = *state;
	struct store_retention r = {.events_max = 30};
	struct seen seen;
	uint64_t newest;

	for (unsigned i = 0; i < 450; i++)
		event(f, "ia", STORE_EVENT_CREATED, T0 + i);
	maintain(f, T0, &r);
	assert_int_equal(events(f, (struct store_event_filter){0}, &seen), 30);
	newest = seen.ids[0];
	maintain(f, T0 + 449 + 30 * DAY_NS, NULL);
	assert_int_equal(events(f, (struct store_event_filter){0}, &seen), 1);
	maintain(f, T0 + 31 * DAY_NS, NULL);
	assert_int_equal(events(f, (struct store_event_filter){0}, &seen), 0);
	fixture_reopen(f);
	event(f, "ia", STORE_EVENT_CREATED, T0);
	assert_int_equal(events(f, (struct store_event_filter){0}, &seen), 1);
	assert_true(seen.ids[0] > newest); /* ids are never used twice */
}

static void test_usage_retention(void **state)
{
	struct fixture *f = *state;
	struct store_counters c;

	for (unsigned i = 0; i < 250; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "i%u", i);
		record(f, id, 1, 1, 1, 1, T0);
	}
	record(f, "inew", 1, 1, 1, 1, T0 + 200 * DAY_NS);
	maintain(f, T0 + 401 * DAY_NS, NULL);
	assert_false(look_up(f, "i1").found);
	c = of_sandbox(f, "inew");
	c = of_key(f, 0, T0 + 300 * DAY_NS);
	assert_counters(&c, 251, 251, 251); /* totals of keys stay */
}

/* ---- samples ---- */

static int check_sample(void *arg, const struct store_sample *m)
{
	uint64_t *last = arg;

	assert_true(m->at_ns > *last);
	assert_int_equal(m->mem_total_bytes, 2);
	*last = m->at_ns;
	return 0;
}

static int count_sample(void *arg, const struct store_sample *m)
{
	return fixture_count(arg, m);
}

static void sample(struct fixture *f, const char *id, uint64_t at_ns, uint32_t permille)
{
	struct store_sample m = {.at_ns = at_ns,
		.cpu_count = 2,
		.cpu_used_permille = permille,
		.mem_used_bytes = 1,
		.mem_total_bytes = 2,
		.mem_cache_bytes = 3,
		.disk_used_bytes = 4,
		.disk_total_bytes = 5};

	ok(f, store_sample_add(f->s, id, &m, &f->e));
}

static unsigned samples(struct fixture *f, const char *id, uint64_t from_ns, uint64_t to_ns)
{
	unsigned n = 0;

	ok(f, store_sample_list(f->s, id, from_ns, to_ns, count_sample, &n, &f->e));
	return n;
}

static void test_samples_are_a_ring(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox sb = fixture_sandbox(f, "i1");
	const uint64_t step = STORE_SAMPLE_INTERVAL_S * NS_PER_S;
	struct store_sample m;
	uint64_t last = 0;

	ok(f, store_sandbox_insert(f->s, &sb, &f->e));
	refused(f, ENODATA, ERROR_NOT_FOUND, store_sample_last(f->s, "i1", &m, &f->e));
	ok(f, store_begin(f->s, &f->e));
	for (unsigned i = 0; i < 1000; i++)
		sample(f, "i1", T0 + i * step, i);
	ok(f, store_commit(f->s, &f->e));
	assert_int_equal(samples(f, "i1", 0, UINT64_MAX), STORE_SAMPLES_MAX);
	ok(f, store_sample_list(f->s, "i1", 0, UINT64_MAX, check_sample, &last, &f->e));
	ok(f, store_sample_last(f->s, "i1", &m, &f->e));
	assert_true(m.at_ns == T0 + 999 * step && m.cpu_used_permille == 999);
	assert_true(m.cpu_count == 2 && m.mem_used_bytes == 1 && m.mem_cache_bytes == 3 &&
		    m.disk_used_bytes == 4 && m.disk_total_bytes == 5);
	assert_int_equal(samples(f, "i1", T0 + 990 * step, T0 + 992 * step), 3);
	sample(f, "i1", T0 + 999 * step + 1, 7); /* same slot */
	assert_int_equal(samples(f, "i1", T0 + 999 * step, UINT64_MAX), 1);
}

static void test_samples_go_with_the_sandbox(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox sb = fixture_sandbox(f, "i1");
	struct store_sample m = {.at_ns = T0};
	struct query q;
	uint64_t n = 1;

	ok(f, store_sandbox_insert(f->s, &sb, &f->e));
	sample(f, "i1", T0, 1);
	ok(f, store_sandbox_delete(f->s, "i1", &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_sample_add(f->s, "i1", &m, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_sample_last(f->s, "i1", &m, &f->e));
	/* An id that is used again does not get them. */
	ok(f, store_sandbox_insert(f->s, &sb, &f->e));
	assert_int_equal(samples(f, "i1", 0, UINT64_MAX), 0);
	maintain(f, T0, NULL);
	q = db_query_once(f->s, "SELECT (SELECT count(*) FROM samples) + "
				"(SELECT count(*) FROM sample_garbage)");
	ok(f, query_number(&q, &n, &f->e));
	assert_int_equal(n, 0);
}

/* ---- webhooks ---- */

static void hook(struct fixture *f, const char *key, uint32_t types, char *id)
{
	struct store_webhook w = {.key_id = key,
		.url = "https://example.com/x?a='b'",
		.secret = "s3cret",
		.types = types,
		.enabled = true,
		.created_ns = T0};

	ok(f, store_webhook_add(f->s, &w, id, &f->e));
}

static unsigned queue(struct fixture *f, enum store_event_type type, const char *payload)
{
	struct store_event ev = {.id = 5, .type = type, .key_id = f->key, .sandbox_id = "i1"};
	unsigned n = 99;

	ok(f, store_delivery_queue(f->s, &ev, payload, T0, &n, &f->e));
	return n;
}

struct hooks {
	struct store_webhook last;
	unsigned count;
};

static int see_hook(void *arg, const struct store_webhook *w)
{
	struct hooks *h = arg;

	h->last = *w;
	h->count++;
	return 0;
}

static struct hooks hooks(struct fixture *f, const char *key)
{
	struct hooks h = {0};

	ok(f, store_webhook_list(f->s, key, see_hook, &h, &f->e));
	return h;
}

struct due {
	struct fixture *f;
	uint64_t first_id;
	unsigned count;
	char payload[32], error[STORE_DELIVERY_ERROR_MAX + 1];
	uint32_t attempts;
};

static int claim(void *arg, const struct store_delivery *d)
{
	struct due *due = arg;

	if (due->count++ == 0) {
		due->first_id = d->id;
		due->attempts = d->attempts;
		(void)snprintf(due->payload, sizeof(due->payload), "%s", d->payload);
		(void)snprintf(
			due->error, sizeof(due->error), "%s", d->last_error ? d->last_error : "");
	}
	assert_string_equal(d->secret, "s3cret");
	ok(due->f, store_delivery_claim(due->f->s, d->id, T0 + NS_PER_S, &due->f->e));
	return 0;
}

static struct due due(struct fixture *f, uint64_t now_ns)
{
	struct due due = {.f = f};

	ok(f, store_delivery_due(f->s, now_ns, STORE_DUE_MAX, claim, &due, &f->e));
	return due;
}

static void test_webhook_matching(void **state)
{
	struct fixture *f = *state;
	char key[STORE_UUID_BYTES], secret[STORE_KEY_SECRET_BYTES], id[STORE_UUID_BYTES];

	assert_int_equal(queue(f, STORE_EVENT_CREATED, "{}"), 0);
	ok(f, store_key_create(
		      f->s, &(struct store_key_spec){.name = "k2"}, T0, key, secret, &f->e));
	hook(f, NULL, 0, id);
	hook(f, f->key, STORE_EVENT_BIT(STORE_EVENT_KILLED), id);
	hook(f, key, 0, id);
	assert_int_equal(queue(f, STORE_EVENT_CREATED, "{}"), 1);
	assert_int_equal(queue(f, STORE_EVENT_KILLED, "{}"), 2);
	assert_int_equal(hooks(f, NULL).count, 3);
	assert_int_equal(hooks(f, key).count, 1);
	assert_int_equal(hooks(f, f->key).last.queued, 1);
	assert_int_equal(due(f, T0).count, 2); /* the oldest of each */
}

static void test_webhook_delivery(void **state)
{
	struct fixture *f = *state;
	char id[STORE_UUID_BYTES], why[600];
	struct due d;
	uint64_t at = 0;

	hook(f, NULL, 0, id);
	ok(f, store_delivery_next(f->s, &at, &f->e));
	assert_int_equal(at, STORE_NEVER_NS);
	assert_int_equal(queue(f, STORE_EVENT_CREATED, "{\"n\":1}"), 1);
	ok(f, store_delivery_next(f->s, &at, &f->e));
	assert_int_equal(at, T0);
	assert_int_equal(due(f, T0 - 1).count, 0);
	d = due(f, T0);
	assert_int_equal(d.count, 1);
	assert_string_equal(d.payload, "{\"n\":1}");
	assert_int_equal(due(f, T0).count, 0); /* claimed */
	fixture_reopen(f); /* the daemon died meanwhile: given out again, at least once */
	assert_int_equal(due(f, T0 + NS_PER_S).count, 1);
	memset(why, 'x', sizeof(why) - 1);
	memcpy(why + STORE_DELIVERY_ERROR_MAX - 1, "\xc3\xa4", 2); /* cut between characters */
	why[sizeof(why) - 1] = '\0';
	ok(f, store_delivery_failed(f->s, d.first_id, T0 + 5, why, &f->e));
	d = due(f, T0 + 5);
	assert_int_equal(d.attempts, 1);
	assert_int_equal(strlen(d.error), STORE_DELIVERY_ERROR_MAX - 1);
	ok(f, store_delivery_done(f->s, d.first_id, &f->e));
	ok(f, store_delivery_done(f->s, d.first_id, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_delivery_failed(f->s, d.first_id, T0, "x", &f->e));
	assert_int_equal(hooks(f, NULL).last.queued, 0);
}

static void test_webhook_disable(void **state)
{
	struct fixture *f = *state;
	struct store_webhook w = {.url = "http://x", .enabled = false};
	char id[STORE_UUID_BYTES];
	uint64_t at = 0;

	hook(f, NULL, 0, id);
	assert_int_equal(queue(f, STORE_EVENT_CREATED, "{}"), 1);
	ok(f, store_webhook_update(f->s, id, &w, &f->e));
	assert_int_equal(queue(f, STORE_EVENT_CREATED, "{}"), 0);
	assert_int_equal(due(f, T0 + DAY_NS).count, 0);
	assert_int_equal(due(f, UINT64_MAX).count, 0);
	ok(f, store_delivery_next(f->s, &at, &f->e));
	assert_int_equal(at, STORE_NEVER_NS);
	w.enabled = true;
	ok(f, store_webhook_update(f->s, id, &w, &f->e));
	assert_string_equal(hooks(f, NULL).count == 1 ? "one" : "?", "one");
	assert_int_equal(due(f, T0).count, 1); /* with its secret as it was */
	ok(f, store_webhook_remove(f->s, id, &f->e));
	ok(f, store_delivery_next(f->s, &at, &f->e));
	assert_int_equal(at, STORE_NEVER_NS); /* the queue went with it */
	refused(f, ENOENT, ERROR_NOT_FOUND, store_webhook_remove(f->s, id, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_webhook_update(f->s, id, &w, &f->e));
}

static void test_webhook_bounds(void **state)
{
	struct fixture *f = *state;
	struct store_webhook w = {.url = "", .secret = "x"};
	struct store_event ev = {.type = STORE_EVENT_KILLED, .key_id = f->key};
	char id[STORE_UUID_BYTES], *huge = calloc(1, STORE_PAYLOAD_MAX + 2);
	struct hooks h;

	refused(f, EINVAL, ERROR_USAGE, store_webhook_add(f->s, &w, id, &f->e));
	w.url = "http://x";
	w.types = UINT32_MAX;
	refused(f, EINVAL, ERROR_USAGE, store_webhook_add(f->s, &w, id, &f->e));
	w.types = 0;
	w.secret = NULL;
	refused(f, EINVAL, ERROR_USAGE, store_webhook_add(f->s, &w, id, &f->e));
	hook(f, NULL, 0, id);
	memset(huge, 'x', STORE_PAYLOAD_MAX + 1);
	refused(f, EINVAL, ERROR_USAGE, store_delivery_queue(f->s, &ev, huge, T0, NULL, &f->e));
	free(huge);
	ok(f, store_begin(f->s, &f->e));
	for (unsigned i = 0; i < STORE_DELIVERIES_MAX + 5; i++) {
		char payload[32];

		(void)snprintf(payload, sizeof(payload), "%u", i);
		assert_int_equal(queue(f, STORE_EVENT_CREATED, payload), 1);
	}
	ok(f, store_commit(f->s, &f->e));
	h = hooks(f, NULL);
	assert_int_equal(h.last.queued, STORE_DELIVERIES_MAX);
	assert_int_equal(h.last.dropped, 5);
	assert_string_equal(due(f, T0).payload, "5"); /* the oldest ones went */
	for (unsigned i = 1; i < STORE_WEBHOOKS_MAX; i++)
		hook(f, NULL, 0, id);
	w.secret = "x";
	refused(f, ENOBUFS, ERROR_LIMIT, store_webhook_add(f->s, &w, id, &f->e));
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_reports_add_what_is_new),
		TEST(test_reports_are_spread_over_days),
		TEST(test_absurd_reports_do_not_overflow),
		TEST(test_reports_of_periods),
		cmocka_unit_test(test_months),
		TEST(test_bill),
		TEST(test_events),
		TEST(test_events_of_key),
		cmocka_unit_test(test_event_names),
		TEST(test_event_retention),
		TEST(test_usage_retention),
		TEST(test_samples_are_a_ring),
		TEST(test_samples_go_with_the_sandbox),
		TEST(test_webhook_matching),
		TEST(test_webhook_delivery),
		TEST(test_webhook_disable),
		TEST(test_webhook_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
