/* What the pool keeps: how many of what, who gets the room, who gives it back, how often something
 * that fails is tried, and when it is quiet. */
#include "test.h"

#include <string.h>

#include "base/clock.h"
#include "fleet/stock.h"

#define MIB (UINT64_C(1) << 20)
#define S   NS_PER_S

enum { VMS = 16 };

static struct stock s;
static struct stock_vm vms[VMS];
static unsigned used; /* of them */

static const struct stock_key base = {
	.template = "base", .made_s = 7, .sizes = {2, 512 * MIB, 1024 * MIB}};
static const struct stock_key mini = {
	.template = "mini", .made_s = 8, .sizes = {1, 128 * MIB, 64 * MIB}};

static int set_up(void **state)
{
	const struct stock_options o = {.each = 2, .memory_bytes = 1024 * MIB};

	(void)state; /* the stock is static */
	stock_init(&s, &o);
	memset(vms, 0, sizeof(vms));
	used = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state; /* as above */
	stock_done(&s);
	return 0;
}

/* Makes all that is to be made at that time; how many that was. */
static unsigned fill(uint64_t now_ns)
{
	struct stock_kind *k;
	unsigned n = 0;

	for (; (k = stock_begin(&s, now_ns)); n++) {
		assert_true(used < VMS);
		stock_add(&s, k, &vms[used++]);
	}
	return n;
}

static const char *template_of(const struct stock_vm *vm)
{
	return vm ? vm->kind->key.template : "none";
}

/* Not against a sandbox that was handed out just now. */
static void test_quiet(void **state)
{
	const uint64_t quiet = STOCK_QUIET_MS * NS_PER_MS, most = STOCK_QUIET_MAX_MS * NS_PER_MS;
	const uint64_t begin = 100 * S;

	(void)state; /* static */
	assert_true(stock_want(&s, &base, begin));
	stock_hand_out(&s, begin);
	assert_true(stock_is_quiet(&s, begin + quiet - 1));
	assert_int_equal(fill(begin + quiet - 1), 0);
	assert_int_equal(fill(begin + quiet), 2); /* long enough */
	assert_ptr_equal(stock_take(&s, &base), &vms[0]);
	stock_hand_out(&s, begin + quiet);
	assert_int_equal(fill(begin + quiet + 1), 0);
	stock_rest(&s);
	assert_int_equal(fill(begin + quiet + 1), 1); /* it rests */
	/* one hand-out after the other */
	assert_ptr_equal(stock_take(&s, &base), &vms[1]);
	for (uint64_t at = 0; at < most; at += quiet / 2) {
		stock_hand_out(&s, 2 * begin + at);
		assert_true(stock_want(&s, &base, 2 * begin + at));
		assert_int_equal(fill(2 * begin + at + 1), 0);
	}
	assert_int_equal(fill(2 * begin + most), 1);
	stock_hand_out(&s, 2 * begin + most);
	assert_true(stock_is_quiet(&s, 2 * begin + most + 1)); /* that counts anew */
}

static void test_kept_while_wanted(void **state)
{
	(void)state; /* static */
	assert_int_equal(fill(0), 0);
	assert_null(stock_take(&s, &base));
	assert_true(stock_want(&s, &base, 0));
	assert_int_equal(fill(0), 2);
	assert_ptr_equal(stock_take(&s, &base), &vms[0]);
	assert_string_equal(template_of(&vms[0]), "base");
	assert_int_equal(s.kinds->ready, 1);
	assert_int_equal(fill(1), 1);
	assert_ptr_equal(stock_take(&s, &base), &vms[1]);
	assert_ptr_equal(stock_take(&s, &base), &vms[2]);
	assert_null(stock_take(&s, &base));
	assert_int_equal(fill(2), 2);
	assert_null(stock_surplus(&s, STOCK_IDLE_S * S));
	/* not wanted any more */
	assert_int_equal(s.kind_count, 1);
	assert_non_null(stock_surplus(&s, STOCK_IDLE_S * S + 1));
	assert_non_null(stock_surplus(&s, STOCK_IDLE_S * S + 1));
	assert_null(stock_surplus(&s, STOCK_IDLE_S * S + 1));
	assert_int_equal(s.kind_count, 0);
	assert_int_equal(s.memory_bytes, 0);
	assert_int_equal(fill(STOCK_IDLE_S * S + 2), 0);
}

static void test_kinds_are_told_apart(void **state)
{
	struct stock_key other[5] = {base, base, base, base, base};

	(void)state; /* static */
	other[0].made_s = 8;
	other[1].snapshot = "abc";
	other[2].sizes.cpus = 1;
	other[3].sizes.memory_bytes += 1;
	other[4].sizes.disk_bytes += 1;
	(void)stock_want(&s, &base, 0);
	assert_int_equal(fill(0), 2);
	for (unsigned i = 0; i < 5; i++)
		assert_null(stock_take(&s, &other[i]));
	assert_true(stock_want(&s, &other[1], 0));
	other[1].snapshot = "abd";
	assert_null(stock_take(&s, &other[1]));
	assert_int_equal(s.kind_count, 2);
}

static void test_too_many_kinds(void **state)
{
	struct stock_key k = base;

	(void)state; /* static */
	for (unsigned i = 0; i < STOCK_KINDS_MAX; i++) {
		k.made_s = i;
		assert_true(stock_want(&s, &k, 0));
	}
	k.made_s = STOCK_KINDS_MAX;
	assert_false(stock_want(&s, &k, 0));
	k.made_s = 0;
	assert_true(stock_want(&s, &k, 0));
	assert_null(stock_surplus(&s, STOCK_IDLE_S * S + 1)); /* all of them go */
	assert_int_equal(s.kind_count, 0);
}

/* Its template is built anew while one is made. */
static void test_forgotten(void **state)
{
	struct stock_kind *k;

	(void)state; /* static */
	(void)stock_want(&s, &base, 0);
	k = stock_begin(&s, 0);
	stock_forget(k);
	assert_null(stock_surplus(&s, 0));
	assert_int_equal(s.kind_count, 1); /* somebody makes one of it */
	assert_null(stock_take(&s, &base));
	stock_add(&s, k, &vms[0]);
	assert_null(stock_take(&s, &base));
	assert_true(stock_want(&s, &base, 0)); /* a new one of the same name */
	assert_int_equal(s.kind_count, 2);
	assert_ptr_equal(stock_surplus(&s, 0), &vms[0]);
	assert_null(stock_surplus(&s, 0));
	assert_int_equal(s.kind_count, 1);
	assert_int_equal(s.memory_bytes, 0);
}

static void test_room(void **state)
{
	struct stock_key large = base;

	(void)state; /* static */
	(void)stock_want(&s, &base, 0);
	assert_int_equal(fill(0), 2); /* all there is */
	(void)stock_want(&s, &mini, STOCK_YIELD_S * S);
	assert_int_equal(fill(STOCK_YIELD_S * S), 0);
	assert_null(stock_surplus(&s, STOCK_YIELD_S * S)); /* not so much later */
	(void)stock_want(&s, &mini, STOCK_YIELD_S * S + 1);
	assert_string_equal(template_of(stock_surplus(&s, STOCK_YIELD_S * S + 1)), "base");
	assert_null(stock_surplus(&s, STOCK_YIELD_S * S + 1));
	assert_int_equal(fill(STOCK_YIELD_S * S + 1), 2);
	assert_int_equal(s.memory_bytes, (512 + 2 * 128) * MIB);
	/* one that will never have room takes none from others */
	large.sizes.memory_bytes = 1025 * MIB;
	(void)stock_want(&s, &large, 2 * STOCK_YIELD_S * S + 2);
	assert_null(stock_surplus(&s, 2 * STOCK_YIELD_S * S + 2));
}

static void test_emptiest_first(void **state)
{
	struct stock_kind *k[3];

	(void)state; /* static */
	(void)stock_want(&s, &base, 1);
	(void)stock_want(&s, &mini, 2);
	for (unsigned i = 0; i < 3; i++)
		k[i] = stock_begin(&s, 2);
	assert_string_equal(k[0]->key.template, "mini"); /* the last one wanted */
	assert_string_equal(k[1]->key.template, "base");
	assert_string_equal(k[2]->key.template, "mini");
	assert_int_equal(s.memory_bytes, (512 + 2 * 128) * MIB); /* while they are made, too */
	assert_null(stock_begin(&s, 2));			 /* no room for another base */
	for (unsigned i = 0; i < 3; i++)
		stock_postpone(&s, k[i], 2);
	assert_int_equal(s.memory_bytes, 0);
	assert_int_equal(fill(2 + STOCK_RETRY_S * S - 1), 0);
	assert_int_equal(fill(2 + STOCK_RETRY_S * S), 3);
}

static void test_yield(void **state)
{
	(void)state; /* static */
	assert_null(stock_yield(&s));
	(void)stock_want(&s, &mini, 1);
	(void)stock_want(&s, &base, 2);
	assert_int_equal(fill(2), 3); /* one base */
	assert_string_equal(template_of(stock_yield(&s)), "mini");
	assert_string_equal(template_of(stock_yield(&s)), "mini");
	assert_string_equal(template_of(stock_yield(&s)), "base");
	assert_null(stock_yield(&s));
	assert_int_equal(s.memory_bytes, 0);
}

/* From one failure to the next the wait doubles, up to a limit; what is taken ends that. */
static void test_back_off(void **state)
{
	uint64_t now = 0, wait_s = STOCK_RETRY_S;
	struct stock_kind *a, *b;

	(void)state; /* static */
	(void)stock_want(&s, &mini, 0);
	for (unsigned i = 0; i < 12; i++) {
		a = stock_begin(&s, now);
		b = stock_begin(&s, now);
		assert_true(a && a == b);
		stock_failed(&s, a, now);
		stock_failed(&s, b, now); /* counts once */
		assert_null(stock_begin(&s, now + wait_s * S - 1));
		now += wait_s * S;
		(void)stock_want(&s, &mini, now);
		wait_s = 2 * wait_s < STOCK_RETRY_MAX_S ? 2 * wait_s : STOCK_RETRY_MAX_S;
	}
	assert_int_equal(wait_s, STOCK_RETRY_MAX_S);
	assert_int_equal(fill(now), 2);
	assert_non_null(stock_take(&s, &mini));
	assert_int_equal(fill(now), 1);
	stock_died(&s, &vms[1], now);
	assert_int_equal(s.kinds->ready, 1);
	assert_int_equal(s.memory_bytes, 128 * MIB);
	assert_null(stock_begin(&s, now + STOCK_RETRY_S * S - 1));
	assert_int_equal(fill(now + STOCK_RETRY_S * S), 1);
}

static void test_options(void **state)
{
	static const char *const bad[] = {
		"", "x", "-1", "257", "=1", "a=", "a=b", "a=257", "1 ", "a=-1"};
	struct stock_options o = {.memory_bytes = 1024 * MIB};
	struct stock_key k = base;
	char text[STORE_NAME_MAX + 8];
	struct error e = {0};

	(void)state; /* static */
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_true(stock_parse_option(&o, bad[i], &e) < 0);
	assert_int_equal(e.code, ERROR_USAGE);
	memset(text, 'a', STORE_NAME_MAX + 1);
	strcpy(text + STORE_NAME_MAX + 1, "=1");
	assert_true(stock_parse_option(&o, text, &e) < 0);
	assert_int_equal(stock_parse_option(&o, text + 1, &e), 0);
	o = (struct stock_options){.memory_bytes = 1024 * MIB};
	assert_false(stock_is_wanted(&o));
	assert_int_equal(stock_parse_option(&o, "mini=0", &e), 0);
	assert_false(stock_is_wanted(&o));
	assert_int_equal(stock_parse_option(&o, "base=3", &e), 0);
	assert_int_equal(stock_parse_option(&o, "base=1", &e), 0);
	assert_true(stock_is_wanted(&o));
	stock_init(&s, &o);
	assert_false(stock_want(&s, &mini, 0));
	assert_true(stock_want(&s, &base, 0));
	k.snapshot = "abc";
	assert_false(stock_want(&s, &k, 0)); /* that is not named */
	assert_int_equal(fill(0), 1);
	for (unsigned i = o.named_count; i < STOCK_NAMED_MAX; i++)
		assert_int_equal(stock_parse_option(&o, "x=1", &e), 0);
	error_clear(&e);
	assert_true(stock_parse_option(&o, "x=1", &e) < 0);
	assert_int_equal(e.code, ERROR_LIMIT);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_quiet),
		TEST(test_kept_while_wanted),
		TEST(test_kinds_are_told_apart),
		TEST(test_too_many_kinds),
		TEST(test_forgotten),
		TEST(test_room),
		TEST(test_emptiest_first),
		TEST(test_yield),
		TEST(test_back_off),
		TEST(test_options),
	};

	return cmocka_run_group_tests_name("stock", tests, NULL, NULL);
}
