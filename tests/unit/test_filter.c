/* Each filter of mayfly-vmm: what it must stop, tried in a process that has it, and what it must
 * let through. The programs that the build makes are also read instruction by instruction. */
#include "vmm/thread_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/kvm.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "test.h"
#include "vmm/filter_lists.h"

enum { X32 = 0x40000000, FAILED = 3, NUMBERS = 1024, NO_FD = -1 };

/* --- what must be stopped --- */

static int call_int80(int number)
{
	int r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(number) : "memory");
	return r;
}

static void *page(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void open_file(void)
{
	(void)syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY);
}

static void open_file_old(void)
{
	(void)syscall(SYS_open, "/etc/passwd", O_RDONLY);
}

static void create_file(void)
{
	(void)syscall(SYS_creat, "/tmp/mayfly-filter", 0600);
}

static void remove_file(void)
{
	(void)syscall(SYS_unlinkat, AT_FDCWD, "/tmp/mayfly-filter", 0);
}

static void make_socket(void)
{
	(void)syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
}

static void connect_socket(void)
{
	(void)syscall(SYS_connect, 0, NULL, 0);
}

static void run_program(void)
{
	(void)syscall(SYS_execve, "/bin/true", NULL, NULL);
}

static void run_descriptor(void)
{
	(void)syscall(SYS_execveat, 0, "", NULL, NULL, AT_EMPTY_PATH);
}

static void map_code(void)
{
	(void)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void make_code(void)
{
	(void)syscall(SYS_mprotect, NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
}

static void make_code_of_key(void)
{
	(void)syscall(SYS_pkey_mprotect, NULL, 4096, PROT_EXEC, 0);
}

static void fork_process(void)
{
	if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0) == 0)
		_exit(0);
}

static void fork_old(void)
{
	if (syscall(SYS_fork) == 0)
		_exit(0);
}

static void share_and_fork(void)
{
	(void)syscall(SYS_clone, CLONE_VM | CLONE_FILES | CLONE_PARENT, NULL, NULL, NULL, 0);
}

static void make_namespace_thread(void)
{
	(void)syscall(SYS_clone, 0x3d0f00 | CLONE_NEWUSER, NULL, NULL, NULL, 0);
}

static void foreign_ioctl(void)
{
	(void)ioctl(0, TIOCSTI, "x");
}

static void make_kvm_device(void)
{
	(void)ioctl(NO_FD, KVM_CREATE_DEVICE, NULL);
}

static void close_ioctl_number(void)
{
	(void)ioctl(NO_FD, KVM_RUN + 1, NULL);
}

static void trace_process(void)
{
	(void)syscall(SYS_ptrace, 0, 0, 0, 0);
}

static void read_process(void)
{
	(void)syscall(SYS_process_vm_readv, 1, NULL, 0, NULL, 0, 0);
}

static void open_process(void)
{
	(void)syscall(SYS_pidfd_open, 1, 0);
}

static void load_bpf(void)
{
	(void)syscall(SYS_bpf, 0, NULL, 0);
}

static void open_perf(void)
{
	(void)syscall(SYS_perf_event_open, NULL, 0, 0, -1, 0);
}

static void make_ring(void)
{
	(void)syscall(SYS_io_uring_setup, 1, NULL);
}

static void make_userfault(void)
{
	(void)syscall(SYS_userfaultfd, 0);
}

static void use_keys(void)
{
	(void)syscall(SYS_keyctl, 0, 0, 0, 0, 0);
}

static void mount_files(void)
{
	(void)syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL);
}

static void leave_namespace(void)
{
	(void)syscall(SYS_unshare, CLONE_NEWUSER);
}

static void join_namespace(void)
{
	(void)syscall(SYS_setns, 0, 0);
}

static void load_module(void)
{
	(void)syscall(SYS_finit_module, 0, "", 0);
}

static void make_memory_file(void)
{
	(void)syscall(SYS_memfd_create, "x", 0);
}

static void kill_another(void)
{
	(void)syscall(SYS_pidfd_send_signal, 0, SIGKILL, NULL, 0);
}

static void raise_limit(void)
{
	(void)syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, NULL);
}

static void make_dumpable(void)
{
	(void)syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static void own_signals(void)
{
	(void)fcntl(0, F_SETOWN, 1);
}

static void poison_memory(void)
{
	(void)madvise(NULL, 0, 100 /* MADV_HWPOISON */);
}

static void x32_call(void)
{
	(void)syscall(SYS_getppid | X32);
}

static void x32_write(void)
{
	(void)syscall(SYS_write | X32, NO_FD, "", 0);
}

static void old_architecture(void)
{
	(void)call_int80(20 /* getpid of i386 */);
}

static void unknown_call(void)
{
	(void)syscall(NUMBERS);
}

static const struct attempt {
	const char *name;
	void (*call)(void);
} attempts[] = {
	{"openat", open_file},
	{"open", open_file_old},
	{"creat", create_file},
	{"unlinkat", remove_file},
	{"socket", make_socket},
	{"connect", connect_socket},
	{"execve", run_program},
	{"execveat", run_descriptor},
	{"mmap with PROT_EXEC", map_code},
	{"mprotect with PROT_EXEC", make_code},
	{"pkey_mprotect", make_code_of_key},
	{"fork by clone", fork_process},
	{"fork", fork_old},
	{"clone of a process that shares memory", share_and_fork},
	{"clone of a thread in a new namespace", make_namespace_thread},
	{"ioctl(TIOCSTI)", foreign_ioctl},
	{"ioctl(KVM_CREATE_DEVICE)", make_kvm_device},
	{"ioctl, one beside KVM_RUN", close_ioctl_number},
	{"ptrace", trace_process},
	{"process_vm_readv", read_process},
	{"pidfd_open", open_process},
	{"pidfd_send_signal", kill_another},
	{"bpf", load_bpf},
	{"perf_event_open", open_perf},
	{"io_uring_setup", make_ring},
	{"userfaultfd", make_userfault},
	{"keyctl", use_keys},
	{"mount", mount_files},
	{"unshare", leave_namespace},
	{"setns", join_namespace},
	{"finit_module", load_module},
	{"memfd_create", make_memory_file},
	{"prlimit64", raise_limit},
	{"prctl(PR_SET_DUMPABLE)", make_dumpable},
	{"fcntl(F_SETOWN)", own_signals},
	{"madvise(MADV_HWPOISON)", poison_memory},
	{"a call of x32", x32_call},
	{"a listed call of x32", x32_write},
	{"a call of i386", old_architecture},
	{"an unknown call", unknown_call},
};

static void install(enum thread_kind kind)
{
	struct error e = {0};

	if (filter_install(thread_filter(kind), &e) < 0)
		_exit(FAILED);
}

/* Installs a thread's filters as mayfly-vmm does, with those that it inherits. */
static void install_all(enum thread_kind kind)
{
	(void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* no cores of what is killed */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		_exit(FAILED);
	filter_set_mode(FILTER_KILL);
	install(THREAD_START);
	if (kind == THREAD_MAIN || kind == THREAD_SNAPSHOT)
		install(THREAD_MAIN);
	if (kind == THREAD_VCPU || kind == THREAD_SNAPSHOT)
		install(kind);
}

/* Calls f in a process that has the filters; returns how it ended. */
static int try_in_process(enum thread_kind kind, void (*f)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		install_all(kind);
		f();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void assert_killed(enum thread_kind kind, const char *name, void (*f)(void))
{
	int status = try_in_process(kind, f);

	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
		fail_msg("kind %d lets through: %s (status 0x%x)", kind, name, status);
}

static void assert_passes(enum thread_kind kind, const char *name, void (*f)(void))
{
	int status = try_in_process(kind, f);

	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("kind %d does not let through: %s (status 0x%x)", kind, name, status);
}

static void test_every_filter_kills_what_no_thread_does(void **state)
{
	(void)state;
	for (enum thread_kind kind = 0; kind < THREAD_KINDS_; kind++)
		for (size_t i = 0; i < ARRAY_SIZE(attempts); i++)
			assert_killed(kind, attempts[i].name, attempts[i].call);
}

/* --- what only some threads do --- */

static void make_thread(void)
{
	(void)syscall(SYS_clone, 0x3d0f00, NULL, NULL, NULL, 0);
}

static void create_vm(void)
{
	(void)ioctl(NO_FD, KVM_CREATE_VM, 0);
}

static void replace_memory(void)
{
	(void)ioctl(NO_FD, KVM_SET_USER_MEMORY_REGION, NULL);
}

static void set_registers(void)
{
	(void)ioctl(NO_FD, KVM_SET_REGS, NULL);
}

static void get_registers(void)
{
	(void)ioctl(NO_FD, KVM_GET_REGS, NULL);
}

static void run_vcpu(void)
{
	(void)ioctl(NO_FD, KVM_RUN, 0);
}

static void raise_interrupt(void)
{
	(void)ioctl(NO_FD, KVM_SIGNAL_MSI, NULL);
}

static void accept_client(void)
{
	(void)syscall(SYS_accept4, NO_FD, NULL, NULL, 0);
}

static void filter_again(void)
{
	(void)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL);
}

static void test_a_vcpu_neither_makes_threads_nor_touches_the_machine(void **state)
{
	(void)state;
	assert_killed(THREAD_VCPU, "clone", make_thread);
	assert_killed(THREAD_VCPU, "KVM_CREATE_VM", create_vm);
	assert_killed(THREAD_VCPU, "KVM_SET_USER_MEMORY_REGION", replace_memory);
	assert_killed(THREAD_VCPU, "KVM_SET_REGS", set_registers);
	assert_killed(THREAD_VCPU, "KVM_GET_REGS", get_registers);
	assert_killed(THREAD_VCPU, "accept4", accept_client);
	assert_killed(THREAD_VCPU, "seccomp", filter_again);
	assert_passes(THREAD_VCPU, "KVM_RUN", run_vcpu);
	assert_passes(THREAD_VCPU, "KVM_SIGNAL_MSI", raise_interrupt);
}

static void test_the_machine_cannot_change_once_it_runs(void **state)
{
	static const enum thread_kind later[] = {THREAD_MAIN, THREAD_SNAPSHOT};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(later); i++) {
		assert_killed(later[i], "KVM_CREATE_VM", create_vm);
		assert_killed(later[i], "KVM_SET_USER_MEMORY_REGION", replace_memory);
		assert_killed(later[i], "KVM_SET_REGS", set_registers);
		assert_killed(later[i], "KVM_RUN", run_vcpu);
		assert_passes(later[i], "KVM_GET_REGS", get_registers);
	}
	assert_passes(THREAD_START, "KVM_SET_REGS", set_registers);
	assert_passes(THREAD_START, "KVM_CREATE_VM", create_vm);
}

static void test_a_snapshot_makes_no_threads_and_takes_no_clients(void **state)
{
	(void)state;
	assert_killed(THREAD_SNAPSHOT, "clone", make_thread);
	assert_killed(THREAD_SNAPSHOT, "accept4", accept_client);
	assert_killed(THREAD_SNAPSHOT, "seccomp", filter_again);
	assert_killed(THREAD_SNAPSHOT, "KVM_SIGNAL_MSI", raise_interrupt);
	assert_passes(THREAD_MAIN, "accept4", accept_client);
}

/* --- what must work --- */

static void allocate(void)
{
	static const size_t sizes[] = {100, 5000, 70000, 1 << 20};

	for (unsigned round = 0; round < 64; round++)
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			char *p = malloc(sizes[i]);

			if (!p)
				_exit(FAILED);
			memset(p, 1, sizes[i]);
			p = realloc(p, sizes[i] * 3);
			if (!p)
				_exit(FAILED);
			free(p);
		}
}

static void *nothing(void *arg)
{
	return arg;
}

static void make_and_join(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
		_exit(FAILED);
}

static void map_data(void)
{
	void *p = page();

	if (p == MAP_FAILED || munmap(p, 4096) < 0)
		_exit(FAILED);
}

static void test_memory_and_threads_work(void **state)
{
	(void)state;
	for (enum thread_kind kind = 0; kind < THREAD_KINDS_; kind++) {
		assert_passes(kind, "malloc", allocate);
		assert_passes(kind, "mmap", map_data);
	}
	assert_passes(THREAD_START, "pthread_create", make_and_join);
	assert_passes(THREAD_MAIN, "pthread_create", make_and_join);
}

static void *open_on_thread(void *arg)
{
	open_file();
	return arg;
}

static void open_on_a_new_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, open_on_thread, NULL) == 0)
		(void)pthread_join(thread, NULL);
}

static void test_one_thread_ends_the_whole_process(void **state)
{
	(void)state;
	assert_killed(THREAD_MAIN, "openat on a new thread", open_on_a_new_thread);
}

static void test_off_and_log_let_everything_through(void **state)
{
	static const enum filter_mode modes[] = {FILTER_OFF, FILTER_LOG};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (pid == 0) {
			(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
			filter_set_mode(modes[i]);
			install(THREAD_VCPU);
			_exit(syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY) >= 0 ? 0 : FAILED);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

static void test_modes_have_names(void **state)
{
	enum filter_mode m;

	(void)state;
	assert_int_equal(filter_parse_mode("kill", &m), 0);
	assert_int_equal(m, FILTER_KILL);
	assert_int_equal(filter_parse_mode("log", &m), 0);
	assert_int_equal(m, FILTER_LOG);
	assert_int_equal(filter_parse_mode("off", &m), 0);
	assert_int_equal(m, FILTER_OFF);
	assert_int_equal(filter_parse_mode("", &m), -EINVAL);
	assert_int_equal(filter_parse_mode("killall", &m), -EINVAL);
}

/* --- the programs that mayfly-vmm has: musl's --- */

struct program {
	const struct sock_filter *code;
	size_t count;
};
#define PROGRAM(list)                                                                              \
	{                                                                                          \
		list, ARRAY_SIZE(list)                                                             \
	}

static const struct program musl[THREAD_KINDS_] = {
	[THREAD_START] = PROGRAM(musl_start_filter),
	[THREAD_MAIN] = PROGRAM(musl_main_filter),
	[THREAD_VCPU] = PROGRAM(musl_vcpu_filter),
	[THREAD_SNAPSHOT] = PROGRAM(musl_snapshot_filter),
};

static bool compare(const struct sock_filter *i, uint32_t a)
{
	switch (BPF_OP(i->code)) {
	case BPF_JEQ:
		return a == i->k;
	case BPF_JGT:
		return a > i->k;
	case BPF_JGE:
		return a >= i->k;
	default:
		return a & i->k;
	}
}

/* True if some arguments lead from instruction at to SECCOMP_RET_ALLOW. a: what is loaded, when
 * known. */
static bool may_allow(
	const struct program *p, size_t at, uint32_t arch, uint32_t number, bool known, uint32_t a)
{
	for (;; at++) {
		const struct sock_filter *i = &p->code[at];

		assert_true(at < p->count);
		if (BPF_CLASS(i->code) == BPF_RET)
			return i->k == SECCOMP_RET_ALLOW;
		if (BPF_CLASS(i->code) == BPF_LD) {
			known = i->k == offsetof(struct seccomp_data, nr) ||
				i->k == offsetof(struct seccomp_data, arch);
			a = i->k == offsetof(struct seccomp_data, nr) ? number : arch;
		} else if (i->code == (BPF_JMP | BPF_JA)) {
			at += i->k;
		} else if (BPF_CLASS(i->code) == BPF_JMP && known) {
			at += compare(i, a) ? i->jt : i->jf;
		} else if (BPF_CLASS(i->code) == BPF_JMP) {
			if (may_allow(p, at + 1 + i->jt, arch, number, known, a))
				return true;
			at += i->jf;
		}
	}
}

static unsigned count_allowed(const struct program *p)
{
	unsigned n = 0;

	for (uint32_t number = 0; number < NUMBERS; number++)
		n += may_allow(p, 0, AUDIT_ARCH_X86_64, number, false, 0);
	return n;
}

static void test_fewer_than_thirty_calls_on_a_vcpu(void **state)
{
	unsigned n = count_allowed(&musl[THREAD_VCPU]);

	(void)state;
	assert_true(n > 10 && n < 30);
}

static void test_first_filter_lets_through_all_that_comes_later(void **state)
{
	(void)state;
	for (uint32_t number = 0; number < NUMBERS; number++)
		for (enum thread_kind kind = 0; kind < THREAD_KINDS_; kind++)
			if (may_allow(&musl[kind], 0, AUDIT_ARCH_X86_64, number, false, 0))
				assert_true(may_allow(&musl[THREAD_START], 0, AUDIT_ARCH_X86_64,
					number, false, 0));
}

static void test_no_call_of_another_interface(void **state)
{
	(void)state;
	for (enum thread_kind kind = 0; kind < THREAD_KINDS_; kind++)
		for (uint32_t number = 0; number < NUMBERS; number++) {
			assert_false(may_allow(
				&musl[kind], 0, AUDIT_ARCH_X86_64, number | X32, false, 0));
			assert_false(may_allow(&musl[kind], 0, AUDIT_ARCH_I386, number, false, 0));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_filter_kills_what_no_thread_does),
		cmocka_unit_test(test_a_vcpu_neither_makes_threads_nor_touches_the_machine),
		cmocka_unit_test(test_the_machine_cannot_change_once_it_runs),
		cmocka_unit_test(test_a_snapshot_makes_no_threads_and_takes_no_clients),
		cmocka_unit_test(test_memory_and_threads_work),
		cmocka_unit_test(test_one_thread_ends_the_whole_process),
		cmocka_unit_test(test_off_and_log_let_everything_through),
		cmocka_unit_test(test_modes_have_names),
		cmocka_unit_test(test_fewer_than_thirty_calls_on_a_vcpu),
		cmocka_unit_test(test_first_filter_lets_through_all_that_comes_later),
		cmocka_unit_test(test_no_call_of_another_interface),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
