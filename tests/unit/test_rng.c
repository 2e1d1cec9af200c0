/* The entropy device. */
#include "test.h"

#include "base/log.h"
#include "fake_driver.h"
#include "vmm/rng.h"

static struct fake_driver f;

static int teardown(void **state)
{
	fake_done(&f);
	return 0;
}

static int setup(void **state)
{
	log_set_level(LOG_LEVEL_ERROR);
	fake_init(&f);
	assert_int_equal(rng_create(&f.memory, fake_raise_irq, &f, &f.dev, NULL), 0);
	fake_start(&f, FAKE_FEATURES, 16);
	return 0;
}

static void rng_fills_buffers(void **state)
{
	static const uint8_t zero[64];
	uint32_t id, len;

	fake_desc(&f, 0, 0, FAKE_HEAP, 64, VIRTQ_DESC_F_WRITE | VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 1, FAKE_HEAP + 128, 64, VIRTQ_DESC_F_WRITE, 0);
	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
	assert_true(fake_used(&f, 0, &id, &len));
	assert_int_equal(len, 128);
	assert_memory_not_equal(fake_at(&f, FAKE_HEAP), zero, 64);
	assert_memory_equal(fake_at(&f, FAKE_HEAP + 64), zero, 64);
	assert_memory_not_equal(fake_at(&f, FAKE_HEAP + 128), zero, 64);
	assert_int_equal(f.irqs, 1);
}

static void rng_bounds_a_request(void **state)
{
	uint32_t id, len;

	fake_desc(&f, 0, 0, FAKE_HEAP, 1 << 20, VIRTQ_DESC_F_WRITE, 0);
	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
	assert_true(fake_used(&f, 0, &id, &len));
	assert_int_equal(len, RNG_REQUEST_MAX);
}

static void rng_takes_readable_buffers_for_nothing(void **state)
{
	uint32_t id, len;

	fake_desc(&f, 0, 0, FAKE_HEAP, 64, 0, 0);
	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
	assert_true(fake_used(&f, 0, &id, &len));
	assert_int_equal(len, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(rng_fills_buffers),
		T(rng_bounds_a_request),
		T(rng_takes_readable_buffers_for_nothing),
	};

	return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
