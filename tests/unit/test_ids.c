/* Ranges of ids that processes claim. */
#include "test.h"

#include <errno.h>
#include <unistd.h>

#include "jail/ids.h"

/* A range that no workshop asks for, so that none disturbs. */
enum { FIRST = 100000, COUNT = 200000 };

static void test_no_two_have_one(void **state)
{
	unsigned a, b, c;
	int first = ids_claim(FIRST, COUNT, &a), second = ids_claim(FIRST, COUNT, &b), third;

	assert_true(first >= 0 && second >= 0);
	assert_int_equal(a, FIRST);
	assert_int_equal(b, FIRST + 1);
	(void)close(first); /* it is free again */
	third = ids_claim(FIRST, COUNT, &c);
	assert_int_equal(c, FIRST);
	(void)close(second);
	(void)close(third);
}

static void test_after_the_last(void **state)
{
	unsigned a, b, c;
	int last = ids_claim(1, 2, &a), first = ids_claim(1, 2, &b);

	if (last >= 0 && first >= 0) /* else a workshop has one of them */
		assert_true(a == 1 && b == 0);
	assert_int_equal(ids_claim(1, 2, &c), -EADDRINUSE);
	if (last >= 0)
		(void)close(last);
	if (first >= 0)
		(void)close(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_two_have_one),
		cmocka_unit_test(test_after_the_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
