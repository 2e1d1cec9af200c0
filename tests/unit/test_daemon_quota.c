#include "test.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
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

/* Without /proc there is a limit, too: what the kernel says otherwise. Runs in a process of its
 * own, whose status is 77 if it may not hide /proc. */
static int limit_without_proc(void)
{
	const struct quota_options o = {.memory_bytes = 0};
	uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	struct error e = {0};
	struct quota q;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", "/proc", "tmpfs", 0, NULL) < 0)
		return 77;
	quota_init(&q, &o);
	if (q.memory_max_bytes == 0 || q.memory_max_bytes > total)
		return 1;
	return reserve(&q, 1 << 20, &e) < 0 && e.code == ERROR_NO_SPACE ? 0 : 2;
}

static void test_memory_without_proc(void **state)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(limit_without_proc());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_or_none),
		cmocka_unit_test(test_cpus),
		cmocka_unit_test(test_memory_without_proc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
