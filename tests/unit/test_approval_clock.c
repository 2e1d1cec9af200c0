/* When the wall clock counts as set. */
#include "test.h"

#include "network/approval_clock.h"

#define S ((int64_t)NS_PER_S)

enum { UP_S = 1000 };

static const uint64_t wall = 1800000000 * NS_PER_S;
static const struct approval_clock c = {.ahead_ns = 1800000000 * NS_PER_S - UP_S * NS_PER_S};

/* Some time later, the wall clock read between the two others. */
static int64_t step(int64_t set_ns, uint64_t before_ns, uint64_t after_ns)
{
	const uint64_t later = 3600 * NS_PER_S;
	const struct approval_times t = {.before_ns = UP_S * NS_PER_S + later - before_ns,
		.wall_ns = wall + later + (uint64_t)set_ns,
		.after_ns = UP_S * NS_PER_S + later + after_ns};

	return approval_clock_step(&c, &t);
}

static void test_set(void **state)
{
	assert_int_equal(step(0, 0, 0), 0);
	assert_int_equal(step(600 * S, 0, 0), 600 * S);
	assert_int_equal(step(-600 * S, 0, 0), -600 * S);
	assert_int_equal(step(-86400 * 365 * S, 0, 0), -86400 * 365 * S);
}

static void test_slewed(void **state)
{
	assert_int_equal(step(S - 1, 0, 0), 0);
	assert_int_equal(step(1 - S, 0, 0), 0);
	assert_int_equal(step(S, 0, 0), S);
	assert_int_equal(step(-S, 0, 0), -S);
}

/* A thread that stood still while it looked. */
static void test_late(void **state)
{
	assert_int_equal(step(0, 5 * NS_PER_S, 0), 0);
	assert_int_equal(step(0, 0, 5 * NS_PER_S), 0);
	assert_int_equal(step(600 * S, 5 * NS_PER_S, 5 * NS_PER_S), 595 * S);
	assert_int_equal(step(-600 * S, 5 * NS_PER_S, 5 * NS_PER_S), -595 * S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_slewed),
		cmocka_unit_test(test_late),
	};

	return cmocka_run_group_tests_name("approval_clock", tests, NULL, NULL);
}
