/* Rates of keys and of the host. */
#include "test.h"

#include <stdio.h>

#include "base/clock.h"
#include "fleet/key_rates.h"

enum { PER_KEY = 20, IN_ALL = KEY_RATES_MAX / 2 };

static const uint64_t start = 1000 * NS_PER_S;

static unsigned take(struct key_rates *r, const char *key, unsigned tries, uint64_t now)
{
	unsigned n = 0;

	while (tries--)
		n += key_rates_take(r, key, PER_KEY, IN_ALL, now);
	return n;
}

static void test_a_key(void **state)
{
	static struct key_rates r;

	assert_int_equal(take(&r, "a", 100, start), PER_KEY);
	assert_int_equal(take(&r, "b", 100, start), PER_KEY);
	assert_int_equal(take(&r, NULL, 100, start), PER_KEY); /* the operator */
	assert_int_equal(take(&r, "a", 100, start + NS_PER_S / 2), PER_KEY / 2);
	assert_int_equal(take(&r, "c", 100, start + 10 * NS_PER_S), PER_KEY);
	assert_int_equal(r.count, 1); /* the others are full again */
}

/* No number of keys takes more than the host's rate, and the table never fills. */
static void test_all_keys(void **state)
{
	static struct key_rates r;
	uint64_t now = start;
	unsigned n = 0, most = 0;
	char key[16];

	for (unsigned i = 0; i < 20 * IN_ALL; i++, now += NS_PER_S / (4 * IN_ALL)) {
		(void)snprintf(key, sizeof(key), "key%u", i);
		n += key_rates_take(&r, key, PER_KEY, IN_ALL, now);
		most = r.count > most ? r.count : most;
	}
	assert_in_range(n, 5 * IN_ALL, 6 * IN_ALL + 1); /* 5 seconds, and the first burst */
	assert_true(most < KEY_RATES_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_key),
		cmocka_unit_test(test_all_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
