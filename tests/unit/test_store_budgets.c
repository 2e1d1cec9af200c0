/* src/store/budgets: what is used of budgets, how long it stays, and how much there may be. */
#include "test.h"

#include "store/budgets.h"
#include "store/db.h"
#include "store/keys.h"
#include "store/maintain.h"
#include "test_store_fixture.h"

#define DAY_NS (UINT64_C(86400) * 1000000000)

static struct store_budget budget(
	struct fixture *f, const char *sandbox_id, const char *id, uint64_t day)
{
	return (struct store_budget){
		.key_id = f->key, .sandbox_id = sandbox_id, .id = id, .day = day};
}

static void charge(struct fixture *f, struct store_budget b, uint64_t tokens)
{
	const struct store_amounts more = {1, tokens, 2 * tokens};

	ok(f, store_budget_charge(f->s, &b, &more, &f->e));
}

static void expect(struct fixture *f, struct store_budget b, uint64_t requests, uint64_t tokens,
	uint64_t micros)
{
	ok(f, store_budget_get(f->s, &b, &f->e));
	assert_int_equal(b.used.requests, requests);
	assert_int_equal(b.used.tokens, tokens);
	assert_int_equal(b.used.micros, micros);
}

static void test_counts(void **state)
{
	struct fixture *f = *state;
	const struct store_budget own = budget(f, "i1", "a", 5), other = budget(f, "i2", "a", 5),
				  next = budget(f, "i1", "a", 6), of_key = budget(f, NULL, "a", 5);

	charge(f, own, 10);
	charge(f, own, 1);
	charge(f, of_key, 7);
	expect(f, own, 2, 11, 22);
	expect(f, of_key, 1, 7, 14);
	expect(f, other, 0, 0, 0);
	expect(f, next, 0, 0, 0);
	ok(f, store_budget_settle(f->s, &own, -4, 3, &f->e));
	expect(f, own, 2, 7, 25);
	ok(f, store_budget_settle(f->s, &own, -100, INT64_MIN, &f->e)); /* never below 0 */
	expect(f, own, 2, 0, 0);
	ok(f, store_budget_settle(f->s, &other, 5, 5, &f->e)); /* nothing is there */
	expect(f, other, 0, 0, 0);
	fixture_reopen(f);
	expect(f, own, 2, 0, 0);
	expect(f, of_key, 1, 7, 14);
}

static void test_sums_do_not_overflow(void **state)
{
	struct fixture *f = *state;
	struct store_budget b = budget(f, "i1", "a", 0);
	const struct store_amounts all = {UINT64_MAX, UINT64_MAX, UINT64_MAX};

	for (unsigned i = 0; i < 3; i++)
		ok(f, store_budget_charge(f->s, &b, &all, &f->e));
	ok(f, store_budget_settle(f->s, &b, INT64_MAX, INT64_MAX, &f->e));
	expect(f, b, UINT64_C(1) << 50, UINT64_C(1) << 50, UINT64_C(1) << 50);
}

static uint64_t rows(struct fixture *f, const char *sql)
{
	struct query q = db_query_once(f->s, sql);
	uint64_t n = 0;

	ok(f, query_number(&q, &n, &f->e));
	return n;
}

/* Days that are over go, but for yesterday; what counts for ever stays. */
static void test_days_go(void **state)
{
	struct fixture *f = *state;
	bool more = false;

	for (uint64_t day = 0; day < 10; day++)
		charge(f, budget(f, NULL, "a", day), 1);
	ok(f, budgets_prune(f->s, 9 * DAY_NS + 1, &more, &f->e));
	assert_false(more);
	assert_int_equal(rows(f, "SELECT count(*) FROM budgets"), 3);
	assert_int_equal(rows(f, "SELECT min(count) FROM budget_totals"), 3);
	expect(f, budget(f, NULL, "a", 8), 1, 1, 2);
	expect(f, budget(f, NULL, "a", 0), 1, 1, 2);
	expect(f, budget(f, NULL, "a", 7), 0, 0, 0);
}

static void test_ends(void **state)
{
	struct fixture *f = *state;

	charge(f, budget(f, "i1", "a", 0), 1);
	charge(f, budget(f, "i2", "a", 0), 1);
	charge(f, budget(f, NULL, "a", 0), 1);
	ok(f, budgets_end(f->s, "i1", &f->e));
	expect(f, budget(f, "i1", "a", 0), 0, 0, 0);
	expect(f, budget(f, "i2", "a", 0), 1, 1, 2);
	ok(f, store_key_revoke(f->s, f->key, T0, &f->e));
	expect(f, budget(f, NULL, "a", 0), 0, 0, 0);
	expect(f, budget(f, "i2", "a", 0), 1, 1, 2); /* until it has ended */
}

static void test_bounds(void **state)
{
	struct fixture *f = *state;
	const struct store_amounts more = {1, 1, 1};
	struct store_budget b = budget(f, "i1", NULL, 0), stranger;
	char id[STORE_BUDGET_ID_MAX + 2];

	b.id = id;
	ok(f, store_begin(f->s, &f->e));
	for (unsigned i = 0; i < STORE_BUDGETS_KEY_MAX; i++) {
		(void)snprintf(id, sizeof(id), "b%u", i);
		ok(f, store_budget_charge(f->s, &b, &more, &f->e));
	}
	ok(f, store_commit(f->s, &f->e));
	ok(f, store_budget_charge(f->s, &b, &more, &f->e)); /* which is there */
	strcpy(id, "more");
	refused(f, ENOBUFS, ERROR_TOO_MANY, store_budget_charge(f->s, &b, &more, &f->e));
	stranger = b;
	stranger.key_id = "another";
	ok(f, store_budget_charge(f->s, &stranger, &more, &f->e));
	memset(id, 'x', sizeof(id));
	id[sizeof(id) - 1] = '\0';
	refused(f, EINVAL, ERROR_USAGE, store_budget_charge(f->s, &stranger, &more, &f->e));
	ok(f, db_exec(f->s, "UPDATE budget_totals SET count = 65536 WHERE key_id = ''", &f->e));
	strcpy(id, "of all");
	refused(f, ENOBUFS, ERROR_TOO_MANY, store_budget_charge(f->s, &stranger, &more, &f->e));
}

#define T(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_counts),
		T(test_sums_do_not_overflow),
		T(test_days_go),
		T(test_ends),
		T(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
