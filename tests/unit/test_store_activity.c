/* src/store/activity: logs of sandboxes that are appended to, bounded, counted, and outlive
 * them. */
#include "test.h"

#include "store/activity.h"
#include "store/db.h"
#include "test_store_fixture.h"

#define DAY_NS (UINT64_C(86400) * NS_PER_S)

enum { LISTED_MAX = 1000, RECORD_BYTES = 20 + STORE_ACTIVITY_OVERHEAD };

struct listed {
	unsigned count;
	uint64_t ids[LISTED_MAX];
	unsigned numbers[LISTED_MAX];
	enum store_activity_kind kinds[LISTED_MAX];
};

static int keep(void *arg, const struct store_activity *a)
{
	struct listed *l = arg;

	assert_true(l->count < LISTED_MAX);
	l->ids[l->count] = a->id;
	l->kinds[l->count] = a->kind;
	assert_int_equal(sscanf(a->record, "{\"number\":%u", &l->numbers[l->count]), 1);
	assert_int_equal(a->at_ns, T0 + l->numbers[l->count]);
	l->count++;
	return 0;
}

static struct listed list(
	struct fixture *f, const char *id, uint32_t kinds, uint64_t cursor, uint32_t limit)
{
	struct listed l = {0};

	ok(f, store_activity_list(f->s, id, kinds, cursor, limit, keep, &l, &f->e));
	return l;
}

static struct store_activity record(unsigned number, char text[32])
{
	(void)snprintf(text, 32, "{\"number\":%9u}", number); /* 20 bytes */
	return (struct store_activity){.kind = number % 2, .at_ns = T0 + number, .record = text};
}

static uint64_t add(struct fixture *f, const char *id, const char *key, unsigned number)
{
	char text[32];
	struct store_activity a = record(number, text);
	uint64_t dropped = 0;

	ok(f, store_activity_add(f->s, id, key, &a, 1, 0, T0, &dropped, &f->e));
	return dropped;
}

static struct store_activity_log get(struct fixture *f, const char *id)
{
	struct store_activity_log l = {0};

	ok(f, store_activity_get(f->s, id, NULL, &l, &f->e));
	return l;
}

static uint64_t newest(struct fixture *f, const char *id)
{
	uint64_t n = 1;

	ok(f, store_activity_newest(f->s, id, &n, &f->e));
	return n;
}

static uint64_t number_of(struct fixture *f, const char *sql)
{
	struct query q = db_query_once(f->s, sql);
	uint64_t n = 0;

	ok(f, query_number(&q, &n, &f->e));
	return n;
}

/* What is counted beside the records is what they add up to. */
static void check_sums(struct fixture *f)
{
	assert_int_equal(number_of(f, "SELECT count(*) FROM activity_logs l WHERE bytes <> "
				      "(SELECT coalesce(sum(length(record) + 96), 0) FROM activity "
				      "WHERE log = l.seq)"),
		0);
	assert_int_equal(
		number_of(f, "SELECT count(*) FROM activity_totals t WHERE seq > 0 AND bytes <> "
			     "(SELECT coalesce(sum(length(record) + 96), 0) FROM activity "
			     "WHERE owner = t.seq)"),
		0);
	assert_int_equal(number_of(f, "SELECT bytes FROM activity_totals WHERE seq = 0"),
		number_of(f, "SELECT coalesce(sum(length(record) + 96), 0) FROM activity"));
}

struct chain {
	struct activity_link at;
	unsigned older;
};

static int follow(void *arg, const struct store_activity *a)
{
	struct chain *c = arg;

	if (!a->link.n) { /* of an older Mayfly */
		assert_int_equal(c->at.n, 0);
		c->older++;
		return 0;
	}
	assert_true(activity_chain_add(&c->at, store_activity_kind_name(a->kind), a->record));
	assert_int_equal(a->link.n, c->at.n);
	assert_memory_equal(a->link.hash, c->at.hash, sizeof(c->at.hash));
	return 0;
}

/* From the anchor to the head. Returns how many records have no hash. */
static unsigned check_chain(struct fixture *f, const char *id)
{
	struct store_activity_log log = {0};
	struct chain c = {0};

	ok(f, store_activity_get(f->s, id, NULL, &log, &f->e));
	c.at = log.anchor;
	if (!c.at.n)
		activity_chain_begin(id, &c.at);
	ok(f, store_activity_list(f->s, id, 0, 0, STORE_ACTIVITY_LIST_MAX, follow, &c, &f->e));
	assert_int_equal(log.head.n, c.at.n);
	assert_memory_equal(log.head.hash, c.at.hash, sizeof(c.at.hash));
	assert_true(log.sealed);
	return c.older;
}

static void insert_sandbox(struct fixture *f, const char *id)
{
	struct store_sandbox sb = fixture_sandbox(f, id);

	ok(f, store_sandbox_insert(f->s, &sb, &f->e));
}

static void test_records_come_back_in_order(void **state)
{
	struct fixture *f = *state;
	struct store_activity_log log;
	struct store_activity many[3];
	char text[3][32];
	struct listed l;

	insert_sandbox(f, "i1");
	for (unsigned i = 0; i < 3; i++)
		many[i] = record(i, text[i]);
	ok(f, store_activity_add(f->s, "i1", f->key, many, 3, 4, T0, NULL, &f->e));
	(void)add(f, "i2", f->key, 7);
	(void)add(f, "i1", f->key, 3);
	l = list(f, "i1", 0, 0, 100);
	assert_int_equal(l.count, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_true(l.numbers[i] == i && (i == 0 || l.ids[i] > l.ids[i - 1]));
	l = list(f, "i1", 0, l.ids[1], 1);
	assert_true(l.count == 1 && l.numbers[0] == 2);
	l = list(f, "i1", STORE_ACTIVITY_BIT(STORE_ACTIVITY_REQUEST), 0, 100);
	assert_true(l.count == 2 && l.numbers[0] == 1 && l.numbers[1] == 3);
	assert_int_equal(list(f, "i3", 0, 0, 100).count, 0);
	assert_int_equal(newest(f, "i1"), list(f, "i1", 0, 0, 100).ids[3]);
	assert_int_equal(newest(f, "i3"), 0);
	log = get(f, "i1");
	assert_true(log.lost == 4 && log.dropped == 0 && log.ended_ns == 0);
	assert_int_equal(get(f, "i2").ended_ns, T0); /* it is not there */
	insert_sandbox(f, "i2");
	assert_int_equal(get(f, "i2").ended_ns, 0); /* it did something before it had a row */
	check_sums(f);
	fixture_reopen(f);
	assert_int_equal(list(f, "i1", 0, 0, 100).count, 4);
}

static void test_whose_it_is(void **state)
{
	struct fixture *f = *state;
	struct store_activity_log log;
	struct store_activity bad = {.kind = STORE_ACTIVITY_KINDS_, .record = "{}"};
	static char large[STORE_ACTIVITY_RECORD_MAX + 2];

	(void)add(f, "i1", f->key, 1);
	ok(f, store_activity_get(f->s, "i1", f->key, &log, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_activity_get(f->s, "i1", "other", &log, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_activity_get(f->s, "i1", "", &log, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_activity_get(f->s, "i2", NULL, &log, &f->e));
	refused(f, EINVAL, ERROR_USAGE,
		store_activity_add(f->s, "i1", "", NULL, 0, 0, T0, NULL, &f->e));
	refused(f, EINVAL, ERROR_INTERNAL,
		store_activity_add(f->s, "i1", f->key, &bad, 1, 0, T0, NULL, &f->e));
	memset(large, 'x', sizeof(large) - 1);
	bad = (struct store_activity){.record = large};
	refused(f, EINVAL, ERROR_USAGE,
		store_activity_add(f->s, "i1", f->key, &bad, 1, 0, T0, NULL, &f->e));
	refused(f, EINVAL, ERROR_USAGE,
		store_activity_list(f->s, "i1", 0, 0, 0, keep, NULL, &f->e));
	refused(f, EINVAL, ERROR_USAGE,
		store_activity_list(
			f->s, "i1", 0, 0, STORE_ACTIVITY_LIST_MAX + 1, keep, NULL, &f->e));
	assert_int_equal(list(f, "i1", 0, 0, 100).count, 1);
	check_sums(f);
}

static void test_the_oldest_of_a_sandbox_go(void **state)
{
	struct fixture *f = *state;
	const struct store_activity_bounds b = {.sandbox_bytes = 5 * RECORD_BYTES};
	uint64_t dropped = 0;
	struct listed l;

	store_activity_bound(f->s, &b);
	(void)add(f, "i2", f->key, 99);
	for (unsigned i = 0; i < 400; i++)
		dropped += add(f, "i1", f->key, i);
	l = list(f, "i1", 0, 0, 100);
	assert_true(l.count <= 5 && l.count >= 1);
	assert_int_equal(l.numbers[l.count - 1], 399);
	assert_int_equal(l.numbers[0], 400 - l.count);
	assert_int_equal(dropped, 400 - l.count);
	assert_int_equal(get(f, "i1").dropped, dropped);
	assert_int_equal(get(f, "i2").dropped, 0);
	check_sums(f);
}

static void test_the_oldest_of_a_key_and_of_all_go(void **state)
{
	struct fixture *f = *state;
	const struct store_activity_bounds by_key = {.key_bytes = 4 * RECORD_BYTES};
	const struct store_activity_bounds by_all = {.all_bytes = 3 * RECORD_BYTES};
	struct listed l;

	store_activity_bound(f->s, &by_key);
	(void)add(f, "i0", "other", 1);
	(void)add(f, "i1", f->key, 1);
	for (unsigned i = 0; i < 4; i++)
		(void)add(f, "i2", f->key, i);
	assert_int_equal(list(f, "i1", 0, 0, 9).count, 0); /* it had the oldest */
	assert_int_equal(get(f, "i1").dropped, 1);
	assert_int_equal(list(f, "i2", 0, 0, 9).count, 4);
	assert_int_equal(list(f, "i0", 0, 0, 9).count, 1);
	check_sums(f);
	store_activity_bound(f->s, &by_all);
	(void)add(f, "i3", "third", 1);
	assert_int_equal(list(f, "i0", 0, 0, 9).count, 0);
	l = list(f, "i2", 0, 0, 9);
	assert_true(l.count == 2 && l.numbers[0] == 2);
	assert_int_equal(get(f, "i2").dropped, 2);
	assert_int_equal(list(f, "i3", 0, 0, 9).count, 1);
	check_sums(f);
	for (unsigned i = 0; i < 4; i++) {
		const char *const ids[] = {"i0", "i1", "i2", "i3"};

		assert_int_equal(check_chain(f, ids[i]), 0);
		assert_int_equal(get(f, ids[i]).anchor.n, get(f, ids[i]).dropped);
	}
	(void)add(f, "i1", f->key, 9); /* which has no record left */
	assert_int_equal(get(f, "i1").head.n, 2);
	(void)check_chain(f, "i1");
}

static void test_a_seal_that_was_wrong_stays_so(void **state)
{
	struct fixture *f = *state;
	const uint8_t key[ACTIVITY_KEY_BYTES] = {1}, other[ACTIVITY_KEY_BYTES] = {2};

	store_activity_key(f->s, key);
	(void)add(f, "i1", f->key, 1);
	(void)add(f, "i2", f->key, 1);
	(void)check_chain(f, "i1");
	store_activity_key(f->s, other);
	assert_false(get(f, "i1").sealed);
	(void)add(f, "i1", f->key, 2); /* with a key that did not seal it */
	store_activity_key(f->s, key);
	assert_false(get(f, "i1").sealed);
	(void)check_chain(f, "i2");
	ok(f, db_exec(f->s, "UPDATE activity_logs SET anchor = 1 WHERE sandbox_id = 'i2'", &f->e));
	assert_false(get(f, "i2").sealed);
}

/* As version 17 of the schema finds them. */
static void test_older_records_have_no_hash(void **state)
{
	const struct store_activity_bounds bounds = {.sandbox_bytes = 4 * RECORD_BYTES};
	struct fixture *f = *state;

	for (unsigned i = 0; i < 3; i++)
		(void)add(f, "i1", f->key, i);
	ok(f, db_exec(f->s, "UPDATE activity SET n = 0, hash = NULL", &f->e));
	ok(f, db_exec(f->s, "UPDATE activity_logs SET n = 0, head = NULL, seal = NULL", &f->e));
	assert_int_equal(check_chain(f, "i1"), 3);
	(void)add(f, "i1", f->key, 3);
	assert_int_equal(check_chain(f, "i1"), 3);
	store_activity_bound(f->s, &bounds);
	for (unsigned i = 4; i < 7; i++) {
		(void)add(f, "i1", f->key, i);
		assert_int_equal(check_chain(f, "i1"), 6 - i);
	}
	assert_int_equal(get(f, "i1").anchor.n, 0);
	(void)add(f, "i1", f->key, 7);
	assert_int_equal(get(f, "i1").anchor.n, 1);
	(void)check_chain(f, "i1");
}

static void maintain(struct fixture *f, uint64_t now_ns)
{
	bool more = true;

	for (unsigned i = 0; more; i++) {
		ok(f, store_maintain(f->s, now_ns, NULL, &more, &f->e));
		assert_true(i < 100);
	}
}

static void test_it_outlives_its_sandbox(void **state)
{
	struct fixture *f = *state;
	uint64_t ended;

	insert_sandbox(f, "i1");
	insert_sandbox(f, "i2");
	for (unsigned i = 0; i < 300; i++)
		(void)add(f, "i1", f->key, i);
	(void)add(f, "i2", f->key, 1);
	maintain(f, T0 + 1000 * DAY_NS); /* it has not ended */
	assert_int_equal(list(f, "i1", 0, 0, 1000).count, 300);
	ok(f, store_sandbox_delete(f->s, "i1", &f->e));
	ended = get(f, "i1").ended_ns;
	assert_true(ended > 0);
	(void)add(f, "i1", f->key, 300); /* what came late does not keep it longer */
	assert_int_equal(get(f, "i1").ended_ns, ended);
	maintain(f, ended + 7 * DAY_NS - 1);
	assert_int_equal(list(f, "i1", 0, 0, 1000).count, 301);
	maintain(f, ended + 7 * DAY_NS + 1);
	assert_int_equal(list(f, "i1", 0, 0, 1000).count, 0);
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_activity_get(f->s, "i1", NULL, &(struct store_activity_log){0}, &f->e));
	assert_int_equal(list(f, "i2", 0, 0, 1000).count, 1);
	check_sums(f);
}

static void test_a_batch_is_whole(void **state)
{
	struct fixture *f = *state;

	ok(f, store_begin(f->s, &f->e));
	(void)add(f, "i1", f->key, 1);
	(void)add(f, "i2", f->key, 1);
	store_rollback(f->s);
	assert_int_equal(list(f, "i1", 0, 0, 9).count, 0);
	ok(f, store_begin(f->s, &f->e));
	(void)add(f, "i1", f->key, 1);
	(void)add(f, "i2", f->key, 1);
	ok(f, store_commit(f->s, &f->e));
	assert_int_equal(list(f, "i2", 0, 0, 9).count, 1);
	check_sums(f);
}

static void test_names_of_kinds(void **state)
{
	enum store_activity_kind k;

	for (unsigned i = 0; i < STORE_ACTIVITY_KINDS_; i++) {
		assert_int_equal(store_activity_kind_parse(store_activity_kind_name(i), &k), 0);
		assert_int_equal(k, i);
	}
	assert_int_equal(store_activity_kind_parse("flows", &k), -EINVAL);
	assert_int_equal(store_activity_kind_parse("", &k), -EINVAL);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_records_come_back_in_order),
		TEST(test_whose_it_is),
		TEST(test_the_oldest_of_a_sandbox_go),
		TEST(test_the_oldest_of_a_key_and_of_all_go),
		TEST(test_a_seal_that_was_wrong_stays_so),
		TEST(test_older_records_have_no_hash),
		TEST(test_it_outlives_its_sandbox),
		TEST(test_a_batch_is_whole),
		cmocka_unit_test(test_names_of_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
