/* A thread's priority, there and back; and of the threads that it creates meanwhile. */
#include "test.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "vmm/priority.h"

static void test_there_and_back(void **state)
{
	(void)state; /* unused */
	if (!priority_lower()) {
		assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
		skip(); /* not allowed here: the next one says so */
	}
	assert_int_equal(sched_getscheduler(0), SCHED_IDLE);
	priority_restore();
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

/* One that could not come back does not go. */
static void test_no_way_back(void **state)
{
	(void)state; /* unused */
	if (geteuid() == 0 && seteuid(65534) < 0)
		skip();
	assert_int_equal(setrlimit(RLIMIT_NICE, &(struct rlimit){0, 0}), 0);
	assert_false(priority_lower());
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_no_way_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
