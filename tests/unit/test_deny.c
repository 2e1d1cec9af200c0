/* The daemon's filter of system calls: it refuses what nobody needs, also to what the daemon
 * starts, and lets it make jails. Each attempt is a process of its own. */
#include "test.h"

#include <errno.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "jail/deny.h"

enum { NO_FILTER = 255, NR_IO_URING_SETUP = 425, NR_PIDFD_GETFD = 438, NR_MOUNT_SETATTR = 442 };

/* The errno of a call behind the filter; 0: it succeeded. */
static int result_of(long nr, long a, long b, long c)
{
	static const struct deny_options o = {.makes_jails = true, .network = true};
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || deny_install(&o) < 0)
			_exit(NO_FILTER);
		_exit(syscall(nr, a, b, c, 0, 0, 0) < 0 ? errno : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_not_equal(WEXITSTATUS(status), NO_FILTER);
	return WEXITSTATUS(status);
}

static void test_what_nobody_needs_is_refused(void **state)
{
	static const struct {
		long nr, a, b, c;
		int err;
	} rows[] = {
		{SYS_bpf, 0, 0, 0, EPERM},
		{SYS_perf_event_open, 0, 0, 0, EPERM},
		{SYS_userfaultfd, 0, 0, 0, EPERM},
		{NR_IO_URING_SETUP, 1, 0, 0, ENOSYS},
		{SYS_ptrace, PTRACE_TRACEME, 0, 0, EPERM},
		{SYS_process_vm_readv, 0, 0, 0, EPERM},
		{NR_PIDFD_GETFD, 0, 0, 0, EPERM},
		{SYS_open_by_handle_at, 0, 0, 0, EPERM},
		{SYS_finit_module, 0, 0, 0, EPERM},
		{SYS_kexec_load, 0, 0, 0, EPERM},
		{SYS_clock_settime, 0, 0, 0, EPERM},
		{SYS_setns, 0, 0, 0, EPERM},
		{SYS_socket, AF_PACKET, SOCK_RAW, 0, EAFNOSUPPORT},
		{SYS_socket, AF_ALG, SOCK_SEQPACKET, 0, EAFNOSUPPORT},
		{SYS_socket, AF_VSOCK, SOCK_STREAM, 0, EAFNOSUPPORT},
	};

	(void)state; /* none */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(
			result_of(rows[i].nr, rows[i].a, rows[i].b, rows[i].c), rows[i].err);
}

/* What the kernel says of these without the filter may be another error, but none of the filter's
 * for arguments that it takes. */
static void test_jails_can_be_made(void **state)
{
	(void)state; /* none */
	assert_int_equal(result_of(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0, 0), 0);
	assert_int_equal(result_of(SYS_mount, 0, 0, 0), EFAULT);
	assert_int_equal(result_of(NR_MOUNT_SETATTR, 0, 0, 0), EINVAL);
	assert_int_equal(result_of(SYS_clone3, 0, 0, 0), EINVAL);
	assert_int_equal(result_of(SYS_unshare, 0, 0, 0), 0);
	assert_int_equal(result_of(SYS_socket, AF_INET, SOCK_STREAM, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_nobody_needs_is_refused),
		cmocka_unit_test(test_jails_can_be_made),
	};

	return cmocka_run_group_tests_name("deny", tests, NULL, NULL);
}
