/* Who passes a gate, in which order, and what becomes of those who wait. */
#include "test.h"

#include "fleet/gate.h"

enum { CALLS_MAX = GATE_WAITING_MAX + 8 };

static uv_loop_t loop;
static struct gate *gate;
static struct gate_ticket inside[GATE_PLACES], waiting[CALLS_MAX];
static struct gate_ticket *called[CALLS_MAX];
static unsigned calls;

static void on_called(struct gate_ticket *t)
{
	assert_ptr_equal(t->arg, t);
	called[calls++] = t;
}

static enum gate_state enter(struct gate_ticket *t, unsigned places)
{
	*t = (struct gate_ticket){.called = on_called, .arg = t};
	gate_enter(gate, t, places);
	return t->state;
}

static int open_full(void **state)
{
	calls = 0;
	assert_int_equal(uv_loop_init(&loop), 0);
	gate = gate_new(&loop);
	assert_non_null(gate);
	for (unsigned i = 0; i < GATE_PLACES; i++)
		assert_int_equal(enter(&inside[i], 1), GATE_IN);
	return 0;
}

/* Whatever is left has its places still, so that the gate is freed last. */
static int close_all(void **state)
{
	gate_close(gate);
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	for (unsigned i = 0; i < GATE_PLACES; i++)
		gate_leave(&inside[i]);
	for (unsigned i = 0; i < CALLS_MAX; i++)
		gate_leave(&waiting[i]);
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	return uv_loop_close(&loop);
}

static void test_order(void **state)
{
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(enter(&waiting[i], 1), GATE_WAITS);
	gate_leave(&waiting[1]); /* its client has gone */
	assert_int_equal(waiting[1].state, GATE_NONE);
	assert_int_equal(calls, 0);
	for (unsigned i = 0; i < 3; i++)
		gate_leave(&inside[i]);
	assert_int_equal(calls, 3);
	assert_ptr_equal(called[0], &waiting[0]);
	assert_ptr_equal(called[1], &waiting[2]);
	assert_ptr_equal(called[2], &waiting[3]);
	assert_int_equal(waiting[3].state, GATE_IN);
	assert_int_equal(enter(&waiting[4], 1), GATE_WAITS); /* no place is left over */
	gate_leave(&inside[0]);				     /* the second time gives nothing */
	assert_int_equal(calls, 3);
	gate_leave(&waiting[2]);
	assert_int_equal(waiting[4].state, GATE_IN);
}

/* Two places come together, and nobody overtakes. */
static void test_two_places(void **state)
{
	assert_int_equal(enter(&waiting[0], 2), GATE_WAITS);
	assert_int_equal(enter(&waiting[1], 1), GATE_WAITS);
	gate_leave(&inside[0]);
	assert_int_equal(calls, 0);
	assert_int_equal(enter(&waiting[2], 1), GATE_WAITS);
	gate_leave(&inside[1]);
	assert_int_equal(calls, 1);
	assert_int_equal(waiting[0].state, GATE_IN);
	gate_leave(&waiting[0]);
	assert_int_equal(calls, 3);
	/* when the one that needs more goes, the next has room */
	assert_int_equal(enter(&waiting[3], 2), GATE_WAITS);
	assert_int_equal(enter(&waiting[4], 1), GATE_WAITS);
	gate_leave(&inside[2]);
	assert_int_equal(calls, 3);
	gate_leave(&waiting[3]);
	assert_int_equal(waiting[4].state, GATE_IN);
}

static void test_full(void **state)
{
	for (unsigned i = 0; i < GATE_WAITING_MAX; i++)
		assert_int_equal(enter(&waiting[i], 1), GATE_WAITS);
	assert_int_equal(enter(&waiting[GATE_WAITING_MAX], 1), GATE_REFUSED);
	gate_leave(&waiting[GATE_WAITING_MAX]);
	gate_leave(&waiting[7]);
	assert_int_equal(enter(&waiting[GATE_WAITING_MAX], 1), GATE_WAITS);
	assert_int_equal(calls, 0);
}

static void test_pass(void **state)
{
	struct gate_ticket heir = {0}, other = {0};

	assert_int_equal(enter(&waiting[0], 1), GATE_WAITS);
	gate_pass(&inside[0], &heir);
	gate_leave(&inside[0]); /* has nothing any more */
	assert_int_equal(calls, 0);
	gate_leave(&heir);
	assert_int_equal(waiting[0].state, GATE_IN);
	gate_pass(&heir, &other); /* nothing to give */
	assert_int_equal(other.state, GATE_NONE);
	gate_leave(&other);
}

static void test_close(void **state)
{
	assert_int_equal(enter(&waiting[0], 1), GATE_WAITS);
	assert_int_equal(enter(&waiting[1], 2), GATE_WAITS);
	gate_close(gate);
	assert_int_equal(calls, 2);
	assert_int_equal(waiting[0].state, GATE_CLOSED);
	assert_int_equal(waiting[1].state, GATE_CLOSED);
	assert_int_equal(enter(&waiting[2], 1), GATE_CLOSED);
	for (unsigned i = 0; i < 3; i++)
		gate_leave(&waiting[i]);
	for (unsigned i = 0; i < GATE_PLACES; i++)
		gate_leave(&inside[i]); /* the timer is not closed yet */
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_order, open_full, close_all),
		cmocka_unit_test_setup_teardown(test_two_places, open_full, close_all),
		cmocka_unit_test_setup_teardown(test_full, open_full, close_all),
		cmocka_unit_test_setup_teardown(test_pass, open_full, close_all),
		cmocka_unit_test_setup(test_close, open_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
