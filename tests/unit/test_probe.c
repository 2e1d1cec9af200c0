/* The measure of a host's speed, on a KVM that is slow as often as a test says (ioctl is replaced
 * at link time). */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "sandbox/prepare.h"
#include "sandbox/probe.h"
#include "test.h"

enum { RUN_BYTES = 4096 };

static struct {
	unsigned lost_runs; /* the first runs that lose their CPU until the ceiling */
	unsigned runs;
	bool lost;
} fake;

int __wrap_ioctl(int fd, unsigned long request, ...);
void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__real_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset);

/* The vCPU's page, whose descriptor is /dev/null's, is memory. */
void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	void *p = __real_mmap64(at, n, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, offset);

	if (p != MAP_FAILED && fd >= 0)
		((struct kvm_run *)p)->exit_reason = KVM_EXIT_IO;
	return p;
}

/* Spends this thread's time until the ceiling's signal waits, as KVM_RUN does if it is not let
 * run. */
static int run(void)
{
	sigset_t pending;

	fake.lost = fake.runs++ < fake.lost_runs;
	if (!fake.lost)
		return 0;
	do
		(void)sigpending(&pending); /* cannot fail */
	while (!sigismember(&pending, SIGRTMIN));
	errno = EINTR;
	return -1;
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	static struct kvm_regs regs;
	va_list list;
	void *arg;

	va_start(list, request);
	arg = va_arg(list, void *);
	va_end(list);
	switch (request) {
	case KVM_CREATE_VM:
	case KVM_CREATE_VCPU:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case KVM_GET_VCPU_MMAP_SIZE:
		return RUN_BYTES;
	case KVM_SET_REGS:
		regs = *(struct kvm_regs *)arg;
		return 0;
	case KVM_RUN:
		return run();
	case KVM_GET_REGS:
		*(struct kvm_regs *)arg = regs;
		if (!fake.lost)
			((struct kvm_regs *)arg)->rcx = 0;
		return 0;
	default:
		return 0;
	}
}

static struct probe measured(unsigned lost_runs)
{
	struct probe p = {0};
	struct error e = {0};

	fake.lost_runs = lost_runs;
	fake.runs = 0;
	assert_int_equal(probe_speed(-1, &p, &e), 0);
	return p;
}

static void fast_at_once(void **state)
{
	struct probe p = measured(0);

	assert_false(p.slow);
	assert_int_equal(fake.runs, 2);
}

static void a_lost_cpu_is_no_slow_host(void **state)
{
	for (unsigned lost = 1; lost < PROBE_TRIES; lost++) {
		struct probe p = measured(lost);

		assert_false(p.slow);
		assert_int_equal(probe_check(&p, NULL), 0);
	}
}

static void slow_each_time_is_slow(void **state)
{
	struct probe p = measured(UINT32_MAX);
	struct error e = {0};

	assert_true(p.slow);
	assert_int_equal(fake.runs, PROBE_TRIES);
	assert_true(probe_check(&p, &e) < 0);
	assert_int_equal(e.code, ERROR_HOST_SLOW);
}

/* kvm-clock tells the guest how long its loops take: a number of ours would overrule it. */
static void test_no_guess_of_the_speed(void **state)
{
	char line[PREPARE_CMDLINE_MAX];

	prepare_cmdline(line);
	assert_null(strstr(line, "lpj"));
	assert_non_null(strstr(line, "console=ttyS0 "));
	assert_true(strlen(line) < sizeof(line) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_guess_of_the_speed),
		cmocka_unit_test(fast_at_once),
		cmocka_unit_test(a_lost_cpu_is_no_slow_host),
		cmocka_unit_test(slow_each_time_is_slow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
