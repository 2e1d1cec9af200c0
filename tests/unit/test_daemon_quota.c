#include "test.h"

#include <fcntl.h>
#include <unistd.h>

#include "fleet/quota.h"

#define MIB (UINT64_C(1) << 20)

static const struct sandbox_sizes small = {.cpus = 1, .memory_bytes = 16 * MIB, .disk_bytes = MIB};

static struct quota of(uint64_t memory_mib, uint64_t overcommit)
{
	const struct quota_options o = {.memory_bytes = memory_mib * MIB,
		.cpu_overcommit = overcommit,
		.disk_overcommit = 1000};
	struct quota q;

	quota_init(&q, &o);
	return q;
}

static int reserve(struct quota *q, unsigned count, struct error *e)
{
	struct sandbox_dirs dirs = {.path = (char[]){"/"}, .fd = open("/", O_RDONLY | O_DIRECTORY)};
	int r = quota_reserve(q, &dirs, &small, count, e);

	(void)close(dirs.fd); /* only looked at */
	return r;
}

static void expect_empty(const struct quota *q)
{
	assert_true(q->memory_bytes == 0 && q->cpus == 0 && q->disk_bytes == 0);
}

/* Each takes its memory, 4 MiB and page tables: four fit 90 MiB. */
static void test_all_or_none(void **state)
{
	struct quota q = of(90, 100);
	struct error e = {0};

	assert_true(reserve(&q, 5, &e) < 0);
	assert_int_equal(e.code, ERROR_NO_SPACE);
	expect_empty(&q);
	assert_int_equal(reserve(&q, 4, NULL), 0);
	assert_true(q.cpus == 4 && q.disk_bytes == 4 * MIB);
	assert_true(reserve(&q, 1, NULL) < 0);
	quota_release(&q, &small);
	assert_true(reserve(&q, 2, NULL) < 0);
	assert_int_equal(reserve(&q, 1, NULL), 0);
	for (unsigned i = 0; i < 4; i++)
		quota_release(&q, &small);
	expect_empty(&q);
}

static void test_cpus(void **state)
{
	struct quota q = of(100000, 1);
	unsigned cpus = (unsigned)q.cpus_max;
	struct error e = {0};

	assert_true(reserve(&q, cpus + 1, &e) < 0);
	assert_int_equal(e.code, ERROR_NO_SPACE);
	expect_empty(&q);
	assert_int_equal(reserve(&q, cpus, NULL), 0);
	assert_true(reserve(&q, 1, NULL) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_or_none),
		cmocka_unit_test(test_cpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
