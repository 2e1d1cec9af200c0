/* src/store/approvals: asked once, decided once, expired, cancelled, held for longer, bounded. */
#include "test.h"

#include "store/approvals.h"
#include "store/db.h"
#include "test_store_fixture.h"

static struct store_approval question(const struct fixture *f, const char *sandbox, unsigned n)
{
	struct store_approval a = {.key_id = f->key,
		.sandbox_id = sandbox,
		.template_id = "tmplbase",
		.rule = "shop",
		.question_json = "{\"host\":\"shop.example\"}",
		.asked_ns = T0,
		.expires_ns = T0 + 60 * NS_PER_S};

	memcpy(a.same, &n, sizeof(n));
	memcpy(a.target, &n, sizeof(n));
	return a;
}

static bool ask(
	struct fixture *f, const char *sandbox, unsigned n, char id[STORE_APPROVAL_ID_BYTES])
{
	struct store_approval a = question(f, sandbox, n);
	bool fresh = false;

	ok(f, store_approval_ask(f->s, &a, id, &fresh, &f->e));
	return fresh;
}

static const struct store_approval allow = {.state = STORE_APPROVAL_ALLOWED,
	.decided_ns = T0 + 1,
	.decided_by = "key mfly_1",
	.until_ns = STORE_NEVER_NS};

struct seen {
	unsigned count;
	uint64_t asked, seq, expires;
	enum store_approval_state state;
	char id[STORE_APPROVAL_ID_BYTES], by[64];
};

static int see(void *arg, const struct store_approval *a)
{
	struct seen *s = arg;

	s->count++;
	s->asked = a->count;
	s->seq = a->seq;
	s->expires = a->expires_ns;
	s->state = a->state;
	(void)snprintf(s->id, sizeof(s->id), "%s", a->id);
	(void)snprintf(s->by, sizeof(s->by), "%s", a->decided_by ? a->decided_by : "");
	return 0;
}

static struct seen get(struct fixture *f, const char *id)
{
	struct seen s = {0};

	ok(f, store_approval_get(f->s, id, f->key, see, &s, &f->e));
	return s;
}

/* What answers a question of this sandbox now, or a count of 0. */
static struct seen take(struct fixture *f, const char *sandbox, unsigned n, uint64_t now_ns)
{
	struct store_approval a = question(f, sandbox, n);
	struct seen s = {0};
	int r = store_approval_take(f->s, &a, now_ns, see, &s, &f->e);

	assert_true(r == 0 || r == -ENOENT);
	return s;
}

static void test_asked_once(void **state)
{
	struct fixture *f = *state;
	char one[STORE_APPROVAL_ID_BYTES], two[STORE_APPROVAL_ID_BYTES];

	assert_true(ask(f, "i1", 1, one));
	assert_false(ask(f, "i1", 1, two));
	assert_string_equal(one, two);
	assert_int_equal(get(f, one).asked, 2);
	assert_true(ask(f, "i2", 1, two));
	assert_true(ask(f, "i1", 2, two));
	ok(f, store_approval_decide(f->s, one, f->key, &allow, false, &f->e));
	assert_true(ask(f, "i1", 1, two));
	assert_string_not_equal(one, two);
}

static void test_decided_once(void **state)
{
	struct fixture *f = *state;
	struct store_approval deny = allow;
	char id[STORE_APPROVAL_ID_BYTES];

	ask(f, "i1", 1, id);
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_approval_decide(f->s, id, "another", &allow, false, &f->e));
	ok(f, store_approval_decide(f->s, id, f->key, &allow, false, &f->e));
	deny.state = STORE_APPROVAL_DENIED;
	refused(f, EALREADY, ERROR_EXISTS,
		store_approval_decide(f->s, id, NULL, &deny, false, &f->e));
	assert_string_equal(f->e.message, "key mfly_1 has allowed it already");
	fixture_reopen(f);
	assert_int_equal(get(f, id).state, STORE_APPROVAL_ALLOWED);
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_approval_decide(f->s, "apr_x", f->key, &allow, false, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_approval_get(f->s, id, "another", see, &(struct seen){0}, &f->e));
}

static void test_late(void **state)
{
	struct fixture *f = *state;
	struct store_approval d = allow;
	char id[STORE_APPROVAL_ID_BYTES];
	struct seen s = {0};
	uint64_t at;

	ok(f, store_approval_next(f->s, &at, &f->e));
	assert_int_equal(at, STORE_NEVER_NS);
	ask(f, "i1", 1, id);
	ok(f, store_approval_next(f->s, &at, &f->e));
	assert_int_equal(at, T0 + 60 * NS_PER_S);
	d.decided_ns = at;
	refused(f, EALREADY, ERROR_EXISTS,
		store_approval_decide(f->s, id, f->key, &d, false, &f->e));
	assert_non_null(strstr(f->e.message, "expired"));
	ok(f, store_approval_late(f->s, at - 1, 10, see, &s, &f->e));
	assert_int_equal(s.count, 0);
	ok(f, store_approval_late(f->s, at, 10, see, &s, &f->e));
	assert_int_equal(s.count, 1);
	d.state = STORE_APPROVAL_EXPIRED;
	ok(f, store_approval_decide(f->s, id, NULL, &d, false, &f->e));
	assert_int_equal(get(f, id).state, STORE_APPROVAL_EXPIRED);
}

/* What waits ends later or earlier, but has an end. What is decided does not change. */
static void test_moved(void **state)
{
	struct fixture *f = *state;
	const uint64_t end = T0 + 60 * NS_PER_S;
	char id[STORE_APPROVAL_ID_BYTES], done[STORE_APPROVAL_ID_BYTES];
	uint64_t at;

	ask(f, "i1", 1, id);
	ask(f, "i1", 2, done);
	ok(f, store_approval_decide(f->s, done, f->key, &allow, false, &f->e));
	ok(f, store_approval_move(f->s, 7 * (int64_t)NS_PER_S, STORE_NEVER_NS, &f->e));
	ok(f, store_approval_next(f->s, &at, &f->e));
	assert_int_equal(at, end + 7 * NS_PER_S);
	ok(f, store_approval_move(f->s, -10 * (int64_t)NS_PER_S, STORE_NEVER_NS, &f->e));
	ok(f, store_approval_next(f->s, &at, &f->e));
	assert_int_equal(at, end - 3 * NS_PER_S);
	assert_int_equal(get(f, done).expires, end);
	ok(f, store_approval_move(f->s, 0, end, &f->e));
	ok(f, store_approval_next(f->s, &at, &f->e));
	assert_int_equal(at, end - 3 * NS_PER_S);
	ok(f, store_approval_move(f->s, 0, T0, &f->e));
	ok(f, store_approval_next(f->s, &at, &f->e));
	assert_int_equal(at, T0);
	ok(f, store_approval_move(f->s, 1 << 30, T0 + 5, &f->e));
	ok(f, store_approval_next(f->s, &at, &f->e));
	assert_int_equal(at, T0 + 5);
}

static void test_cancelled_with_its_sandbox(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox sb = fixture_sandbox(f, "i1");
	struct store_approval d = allow;
	char id[STORE_APPROVAL_ID_BYTES], given[STORE_APPROVAL_ID_BYTES];

	ok(f, store_sandbox_insert(f->s, &sb, &f->e));
	ask(f, "i1", 1, id);
	ask(f, "i1", 2, given);
	d.scope = STORE_APPROVAL_SANDBOX;
	ok(f, store_approval_decide(f->s, given, f->key, &d, false, &f->e));
	assert_int_equal(take(f, "i1", 2, T0 + 2).count, 1);
	ok(f, store_sandbox_delete(f->s, "i1", &f->e));
	assert_int_equal(get(f, id).state, STORE_APPROVAL_CANCELLED);
	refused(f, EALREADY, ERROR_EXISTS,
		store_approval_decide(f->s, id, f->key, &allow, false, &f->e));
	assert_non_null(strstr(f->e.message, "cancelled"));
	assert_int_equal(take(f, "i1", 2, clock_realtime_ns() + T0).count, 0);
}

/* For the sandbox, for the template, and for one that does not wait any more. */
static void test_held(void **state)
{
	struct fixture *f = *state;
	struct store_approval d = allow;
	char id[STORE_APPROVAL_ID_BYTES];

	d.scope = STORE_APPROVAL_SANDBOX;
	d.until_ns = T0 + 100;
	ask(f, "i1", 1, id);
	ok(f, store_approval_decide(f->s, id, f->key, &d, false, &f->e));
	assert_string_equal(take(f, "i1", 1, T0 + 99).id, id);
	assert_string_equal(take(f, "i1", 1, T0 + 99).by, "key mfly_1");
	assert_int_equal(take(f, "i1", 1, T0 + 100).count, 0);
	assert_int_equal(take(f, "i1", 2, T0 + 99).count, 0);
	assert_int_equal(take(f, "i2", 1, T0 + 99).count, 0);

	d.scope = STORE_APPROVAL_TEMPLATE;
	ask(f, "i1", 3, id);
	ok(f, store_approval_decide(f->s, id, f->key, &d, false, &f->e));
	assert_int_equal(take(f, "i2", 3, T0 + 99).count, 1);
	assert_int_equal(take(f, "i2", 3, T0 + 100).count, 0);

	d.scope = STORE_APPROVAL_ONCE;
	ask(f, "i1", 4, id);
	ok(f, store_approval_decide(f->s, id, f->key, &d, true, &f->e));
	assert_int_equal(take(f, "i2", 4, T0 + 2).count, 0);
	assert_int_equal(take(f, "i1", 4, T0 + 2).count, 1);
	assert_int_equal(take(f, "i1", 4, T0 + 2).count, 0);
}

static void test_listed(void **state)
{
	struct fixture *f = *state;
	struct store_approval_filter all = {.key_id = f->key, .limit = 10};
	char id[STORE_APPROVAL_ID_BYTES];
	struct seen s = {0};

	for (unsigned i = 0; i < 4; i++)
		ask(f, i % 2 ? "i1" : "i2", i, id);
	ok(f, store_approval_decide(f->s, id, f->key, &allow, false, &f->e));
	ok(f, store_approval_list(f->s, &all, see, &s, &f->e));
	assert_int_equal(s.count, 4);
	all.states = STORE_APPROVAL_BIT(STORE_APPROVAL_WAITING);
	s.count = 0;
	ok(f, store_approval_list(f->s, &all, see, &s, &f->e));
	assert_int_equal(s.count, 3);
	all.sandbox_id = "i1";
	s.count = 0;
	ok(f, store_approval_list(f->s, &all, see, &s, &f->e));
	assert_int_equal(s.count, 1);
	all.after = s.seq;
	s.count = 0;
	ok(f, store_approval_list(f->s, &all, see, &s, &f->e));
	assert_int_equal(s.count, 0);
	all.key_id = "another";
	all.after = 0;
	ok(f, store_approval_list(f->s, &all, see, &s, &f->e));
	assert_int_equal(s.count, 0);
}

static void test_bounded(void **state)
{
	struct fixture *f = *state;
	struct store_approval a;
	char id[STORE_APPROVAL_ID_BYTES], sandbox[16];
	unsigned n = 0;
	bool fresh;

	ok(f, store_begin(f->s, &f->e));
	for (; n < STORE_APPROVALS_KEY_MAX; n++) {
		(void)snprintf(sandbox, sizeof(sandbox), "i%u", n / STORE_APPROVALS_SANDBOX_MAX);
		ask(f, sandbox, n, id);
		a = question(f, sandbox, UINT32_MAX);
		if (n == STORE_APPROVALS_SANDBOX_MAX - 1)
			refused(f, ENOBUFS, ERROR_TOO_MANY,
				store_approval_ask(f->s, &a, id, &fresh, &f->e));
	}
	a = question(f, "another", 1);
	refused(f, ENOBUFS, ERROR_TOO_MANY, store_approval_ask(f->s, &a, id, &fresh, &f->e));
	assert_non_null(strstr(f->e.message, "the API key has"));
	a.key_id = "another";
	ok(f, store_approval_ask(f->s, &a, id, &fresh, &f->e));
	ok(f, store_commit(f->s, &f->e));
}

static uint64_t rows(struct fixture *f)
{
	struct query q = db_query_once(f->s, "SELECT count(*) FROM approvals");
	uint64_t n = 0;

	ok(f, query_number(&q, &n, &f->e));
	return n;
}

static void test_old_ones_go(void **state)
{
	struct fixture *f = *state;
	struct store_approval d = allow;
	char id[STORE_APPROVAL_ID_BYTES];
	bool more = true;

	ok(f, store_begin(f->s, &f->e));
	for (unsigned n = 0; n < STORE_APPROVALS_OVER_MAX + 100; n++) {
		ask(f, "i1", n, id);
		ok(f, store_approval_decide(f->s, id, f->key, &d, false, &f->e));
	}
	ok(f, store_commit(f->s, &f->e));
	assert_in_range(rows(f), STORE_APPROVALS_OVER_MAX, STORE_APPROVALS_OVER_MAX + 1);
	d.scope = STORE_APPROVAL_SANDBOX;
	ask(f, "i1", 1, id);
	ok(f, store_approval_decide(f->s, id, f->key, &d, false, &f->e));
	while (more)
		ok(f, store_maintain(f->s, T0 + 31 * 86400 * NS_PER_S, NULL, &more, &f->e));
	assert_int_equal(rows(f), 1); /* it still holds */
}

static void test_held_ones_are_bounded(void **state)
{
	struct fixture *f = *state;
	struct store_approval d = allow;
	char id[STORE_APPROVAL_ID_BYTES];
	bool more = true;

	d.scope = STORE_APPROVAL_TEMPLATE;
	ok(f, store_begin(f->s, &f->e));
	for (unsigned n = 0; n < STORE_APPROVALS_HELD_MAX; n++) {
		ask(f, "i1", n, id);
		ok(f, store_approval_decide(f->s, id, f->key, &d, false, &f->e));
	}
	ask(f, "i1", UINT32_MAX, id);
	refused(f, ENOBUFS, ERROR_TOO_MANY,
		store_approval_decide(f->s, id, NULL, &d, false, &f->e));
	d.scope = STORE_APPROVAL_ONCE;
	ok(f, store_approval_decide(f->s, id, f->key, &d, false, &f->e));
	ok(f, store_commit(f->s, &f->e));
	while (more)
		ok(f, store_maintain(f->s, T0 + 31 * 86400 * NS_PER_S, NULL, &more, &f->e));
	assert_int_equal(rows(f), STORE_APPROVALS_HELD_MAX); /* what is behind them goes */
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_asked_once),
		T(test_decided_once),
		T(test_late),
		T(test_moved),
		T(test_cancelled_with_its_sandbox),
		T(test_held),
		T(test_listed),
		T(test_bounded),
		T(test_old_ones_go),
		T(test_held_ones_are_bounded),
	};

	return cmocka_run_group_tests_name("store_approvals", tests, NULL, NULL);
}
