/* Bytes that clients make the daemon hold. */
#include "test.h"

#include "http/budget.h"

static struct budget b = {.max = 1000};

static void one_account(void **state)
{
	struct budget_hold h = {0}, other = {0};

	assert_true(budget_set(&h, 5000)); /* of nobody */
	budget_charge_to(&h, &b, "key");
	assert_true(budget_set(&h, 250));
	assert_true(budget_is_short(&h));
	assert_false(budget_set(&h, 251));
	assert_int_equal(h.bytes, 250);
	budget_charge_to(&other, &b, "key");
	assert_false(budget_set(&other, 1));
	assert_true(budget_set(&h, 100));
	assert_false(budget_is_short(&other));
	assert_true(budget_set(&other, 150));
	assert_int_equal(b.bytes, 250);
	budget_force(&other, 500);
	assert_true(budget_set(&other, 400)); /* less always works */
	budget_release(&h);
	budget_release(&other);
	budget_release(&other);
	assert_int_equal(b.bytes, 0);
}

static void all_accounts(void **state)
{
	static const char *const ids[] = {"a", "b", "c", "d", "e"};
	struct budget_hold h[5] = {0};

	for (int i = 0; i < 5; i++) {
		budget_charge_to(&h[i], &b, ids[i]);
		assert_int_equal(budget_set(&h[i], 250), i < 4);
	}
	assert_true(budget_is_short(&h[4])); /* by others */
	budget_release(&h[0]);
	assert_true(budget_set(&h[4], 250));
	for (int i = 0; i < 5; i++)
		budget_release(&h[i]);
	assert_int_equal(b.bytes, 0);
	assert_int_equal(b.refused, 1 + 2);
}

static void another_account(void **state)
{
	struct budget_hold h = {0}, first = {0};

	budget_charge_to(&first, &b, "");
	budget_charge_to(&h, &b, "");
	assert_true(budget_set(&h, 200));
	budget_charge_to(&h, &b, "key");
	assert_int_equal(h.bytes, 200);
	assert_int_equal(first.account->bytes, 0);
	assert_true(budget_set(&first, 250));
	budget_release(&h);
	budget_release(&first);
	assert_int_equal(b.bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_account),
		cmocka_unit_test(all_accounts),
		cmocka_unit_test(another_account),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
