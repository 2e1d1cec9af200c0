/* Shares of the event loop. */
#include "test.h"

#include "base/clock.h"
#include "fleet/turns.h"

enum { MEMBERS = 5, SHARES = 20 };

static struct member {
	struct turn turn;
	unsigned served, busy_ms;
} members[MEMBERS];

static unsigned turns, served_in_turn, most_in_turn, spread;

static void on_prepare(uv_prepare_t *h)
{
	turns++;
	most_in_turn = served_in_turn > most_in_turn ? served_in_turn : most_in_turn;
	served_in_turn = 0;
}

static void serve(struct turn *t)
{
	struct member *m = t->arg;
	uint64_t end_ns = clock_monotonic_ns() + m->busy_ms * NS_PER_MS;

	served_in_turn++;
	m->served++;
	while (clock_monotonic_ns() < end_ns)
		;
	for (unsigned i = 0; i < MEMBERS; i++)
		if (m->served > members[i].served + spread)
			spread = m->served - members[i].served;
	if (m->served == SHARES)
		turn_leave(t);
	else
		turn_ask(t);
}

static void run(unsigned busy_ms)
{
	uv_prepare_t prepare;
	uv_loop_t loop;

	turns = served_in_turn = most_in_turn = spread = 0;
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(uv_prepare_init(&loop, &prepare), 0);
	assert_int_equal(uv_prepare_start(&prepare, on_prepare), 0);
	uv_unref((uv_handle_t *)&prepare);
	for (unsigned i = 0; i < MEMBERS; i++) {
		members[i] = (struct member){.busy_ms = busy_ms};
		assert_int_equal(turn_join(&members[i].turn, &loop, serve, &members[i]), 0);
		turn_ask(&members[i].turn);
		turn_ask(&members[i].turn); /* once is enough */
	}
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0); /* the last one leaves from within */
	for (unsigned i = 0; i < MEMBERS; i++)
		assert_int_equal(members[i].served, SHARES);
	uv_close((uv_handle_t *)&prepare, NULL);
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(&loop), 0);
}

/* All are served once a turn while that is quick. */
static void test_quick(void **state)
{
	run(0);
	assert_true(most_in_turn <= MEMBERS);
	assert_true(turns >= SHARES);
}

/* When it is not, a turn ends in time, and who was left out is first in the next. */
static void test_slow(void **state)
{
	run(TURNS_MS / 2 + 1);
	assert_true(most_in_turn <= 2);
	assert_true(spread <= 1);
}

static void test_leaves_while_it_waits(void **state)
{
	struct turn t = {0};
	uv_loop_t loop;

	assert_int_equal(uv_loop_init(&loop), 0);
	turn_leave(&t); /* has not joined */
	turn_ask(&t);
	assert_int_equal(turn_join(&t, &loop, serve, NULL), 0);
	turn_ask(&t);
	turn_leave(&t);
	turn_ask(&t);
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quick),
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_leaves_while_it_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
