/* src/store/invocations: their life, what is kept of them, and its bounds. */
#include "test.h"

#include "store/db.h"
#include "store/invocations.h"
#include "store/maintain.h"
#include "test_store_fixture.h"

static struct store_invocation invocation(const char *id, const char *key)
{
	return (struct store_invocation){.id = id,
		.key_id = key,
		.agent_id = "agent1",
		.agent = "echo",
		.version = 2,
		.asked_ns = T0,
		.ended_ns = T0 + 5,
		.code = "ok"};
}

struct seen {
	unsigned count;
	uint64_t seq, printed;
	int64_t status;
	enum store_invocation_state state;
	char id[STORE_INVOCATION_ID_BYTES], code[STORE_INVOCATION_CODE_MAX + 1], output[16];
};

static int see(void *arg, const struct store_invocation *v)
{
	struct seen *s = arg;

	s->count++;
	s->seq = v->seq;
	s->printed = v->printed;
	s->status = v->status;
	s->state = v->state;
	(void)snprintf(s->id, sizeof(s->id), "%s", v->id);
	(void)snprintf(s->code, sizeof(s->code), "%s", v->code ? v->code : "");
	(void)snprintf(s->output, sizeof(s->output), "%.*s", (int)v->output_bytes,
		v->output ? (const char *)v->output : "");
	return 0;
}

static struct seen get(struct fixture *f, const char *id)
{
	struct seen s = {0};

	ok(f, store_invocation_get(f->s, id, NULL, see, &s, &f->e));
	return s;
}

static void add(struct fixture *f, const char *id, const char *key)
{
	const struct store_invocation v = invocation(id, key);

	ok(f, store_invocation_add(f->s, &v, &f->e));
}

static void test_life(void **state)
{
	struct fixture *f = *state;
	struct store_invocation v = invocation("inv_a", f->key);
	struct seen s = {0};

	add(f, "inv_a", f->key);
	assert_int_equal(get(f, "inv_a").state, STORE_INVOCATION_QUEUED);
	ok(f, store_invocation_run(f->s, "inv_a", "i1", T0 + 1, &f->e));
	assert_int_equal(store_invocation_run(f->s, "inv_a", "i1", T0 + 1, &f->e), -ENOENT);
	v.output = "hello";
	v.output_bytes = 5;
	v.printed = 7;
	v.status = 3;
	ok(f, store_invocation_finish(f->s, &v, &f->e));
	assert_int_equal(store_invocation_finish(f->s, &v, &f->e), -ENOENT);
	s = get(f, "inv_a");
	assert_int_equal(s.state, STORE_INVOCATION_OVER);
	assert_int_equal(s.status, 3);
	assert_int_equal(s.printed, 7);
	assert_string_equal(s.output, "hello");
	assert_int_equal(store_invocation_get(f->s, "inv_a", "another", see, &s, &f->e), -ENOENT);
}

static void test_pages(void **state)
{
	struct fixture *f = *state;
	struct store_invocation_filter up = {.agent_id = "agent1", .limit = 2, .ascending = true},
				       down = {.agent_id = "agent1", .limit = 2};
	struct seen s = {0};

	add(f, "inv_a", f->key);
	add(f, "inv_b", f->key);
	add(f, "inv_c", f->key);
	ok(f, store_invocation_list(f->s, &up, see, &s, &f->e));
	assert_int_equal(s.count, 2);
	assert_string_equal(s.id, "inv_b");
	up.cursor = s.seq;
	ok(f, store_invocation_list(f->s, &up, see, &s, &f->e));
	assert_string_equal(s.id, "inv_c");
	ok(f, store_invocation_list(f->s, &down, see, &s, &f->e));
	assert_string_equal(s.id, "inv_b");
	up = (struct store_invocation_filter){
		.agent_id = "agent1", .key_id = "another", .limit = 2, .ascending = true};
	s.count = 0;
	ok(f, store_invocation_list(f->s, &up, see, &s, &f->e));
	assert_int_equal(s.count, 0);
}

/* What a killed daemon left. */
static void test_left_open(void **state)
{
	struct fixture *f = *state;
	struct store_invocation v = invocation("inv_c", f->key);
	unsigned count = 0;

	add(f, "inv_a", f->key);
	add(f, "inv_b", f->key);
	add(f, "inv_c", f->key);
	ok(f, store_invocation_run(f->s, "inv_b", "i1", T0, &f->e));
	ok(f, store_invocation_finish(f->s, &v, &f->e));
	ok(f, store_invocation_fail_open(f->s, T0, "interrupted", "again", &count, &f->e));
	assert_int_equal(count, 2);
	assert_string_equal(get(f, "inv_b").code, "interrupted");
	assert_int_equal(get(f, "inv_b").status, -1);
	assert_string_equal(get(f, "inv_c").code, "ok");
}

/* The oldest of a key make room; what runs and what others have stays. */
static void test_bounds(void **state)
{
	static char output[STORE_INVOCATION_OUTPUT_MAX];
	struct fixture *f = *state;
	char id[32];

	add(f, "inv_other", "another");
	add(f, "inv_runs", f->key);
	for (unsigned i = 0; i < 40; i++) {
		struct store_invocation v;

		(void)snprintf(id, sizeof(id), "inv_%u", i);
		v = invocation(id, f->key);
		v.output = output;
		v.output_bytes = sizeof(output);
		ok(f, store_invocation_add(f->s, &v, &f->e));
		ok(f, store_invocation_finish(f->s, &v, &f->e));
		assert_true(number(f, "SELECT bytes FROM invocation_totals WHERE key_id = ''") <=
			    STORE_INVOCATIONS_KEY_BYTES + 4096);
	}
	assert_true(number(f, "SELECT count(*) FROM invocations") > 10);
	assert_int_equal(get(f, "inv_runs").state, STORE_INVOCATION_QUEUED);
	assert_string_equal(get(f, "inv_39").code, "ok");
	assert_int_equal(
		store_invocation_get(f->s, "inv_0", NULL, see, &(struct seen){0}, &f->e), -ENOENT);
	assert_int_equal(number(f, "SELECT sum(bytes) FROM invocations"),
		number(f, "SELECT bytes FROM invocation_totals WHERE key_id = ''"));
	assert_int_equal(number(f, "SELECT count(*) FROM invocations"),
		number(f, "SELECT count FROM invocation_totals WHERE key_id = ''"));
}

/* The oldest of a key go, those that run stay. */
static void test_count(void **state)
{
	struct fixture *f = *state;

	add(f, "inv_runs", f->key);
	ok(f, store_begin(f->s, &f->e));
	for (unsigned i = 0; i < STORE_INVOCATIONS_KEY_MAX + 5; i++) {
		char id[32];
		struct store_invocation v;

		(void)snprintf(id, sizeof(id), "inv_%u", i);
		v = invocation(id, f->key);
		ok(f, store_invocation_add(f->s, &v, &f->e));
		ok(f, store_invocation_finish(f->s, &v, &f->e));
	}
	ok(f, store_commit(f->s, &f->e));
	assert_in_range(number(f, "SELECT count(*) FROM invocations"),
		STORE_INVOCATIONS_KEY_MAX - 100, STORE_INVOCATIONS_KEY_MAX);
	assert_int_equal(
		store_invocation_get(f->s, "inv_0", NULL, see, &(struct seen){0}, &f->e), -ENOENT);
	assert_int_equal(get(f, "inv_runs").state, STORE_INVOCATION_QUEUED);
	assert_int_equal(get(f, "inv_10004").state, STORE_INVOCATION_OVER);
}

static void test_age(void **state)
{
	struct fixture *f = *state;
	struct store_invocation v = invocation("inv_a", f->key);
	bool more = false;

	add(f, "inv_a", f->key);
	add(f, "inv_b", f->key);
	ok(f, store_invocation_finish(f->s, &v, &f->e));
	ok(f, invocations_prune(f->s, T0 + 5, &more, &f->e));
	assert_int_equal(get(f, "inv_a").state, STORE_INVOCATION_OVER);
	ok(f, invocations_prune(f->s, T0 + 6, &more, &f->e));
	assert_int_equal(number(f, "SELECT count(*) FROM invocations"), 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_life),
		T(test_pages),
		T(test_left_open),
		T(test_bounds),
		T(test_count),
		T(test_age),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
