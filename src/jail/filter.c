#include "jail/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the C library does on its own, in every thread.
 *
 * #calls all: futex mmap(-PROT_EXEC) munmap
 * #calls start main vcpu snapshot: rt_sigprocmask mprotect(-PROT_EXEC)
 * #calls start snapshot: exit
 * #calls vcpu (when the VM cannot be made): exit
 * #calls all (only in an orderly end, or one that the kernel forces): exit_group
 * #calls all (after SIGSTOP, or a debugger, the kernel continues a call that waited with this):
 *	restart_syscall
 * #calls all (where the host's clock cannot be read without the kernel): clock_gettime
 * #calls egress (likewise, for its TLS library): time gettimeofday
 * #calls start main snapshot egress: brk
 * #calls start main snapshot (tables that grow; whether they move is up to the allocator): mremap
 * #calls musl vcpu (rarely needed; without it, the allocator uses mmap): brk=ENOMEM
 * #calls glibc vcpu: brk
 *
 * #calls musl all (its allocator gives larger pieces back): madvise(MADV_FREE)
 *
 * #calls glibc start main vcpu snapshot (its allocator gives memory of threads back):
 *	madvise(MADV_DONTNEED)
 * #calls glibc start main vcpu snapshot (in new threads, and where its allocator counts CPUs):
 *	set_robust_list rseq sched_getaffinity gettid getpid
 * #calls glibc all (its allocator lets large pieces grow): mremap
 * #calls glibc main (with the first thread): rt_sigaction
 * #calls glibc start main vcpu snapshot (pthread_create falls back to clone): clone3=ENOSYS
 */

static const char *const modes[FILTER_MODES_] = {
	[FILTER_OFF] = "off", [FILTER_LOG] = "log", [FILTER_KILL] = "kill"};

static enum filter_mode mode = FILTER_OFF;

int filter_parse_mode(const char *name, enum filter_mode *ret)
{
	for (unsigned i = 0; i < FILTER_MODES_; i++)
		if (strcmp(name, modes[i]) == 0) {
			*ret = (enum filter_mode)i;
			return 0;
		}
	return -EINVAL;
}

void filter_set_mode(enum filter_mode m)
{
	mode = m;
}

/* #calls start main: seccomp(SECCOMP_SET_MODE_FILTER) */
static int install(const struct sock_filter *code, unsigned short count)
{
	const struct sock_fprog p = {.len = count, .filter = (struct sock_filter *)code};

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0 ? -errno : 0;
}

/* Installs the program with logging in the place of killing. */
static int install_logging(const struct filter *f)
{
	struct sock_filter code[FILTER_INSTRUCTIONS_MAX];

	if (f->count > FILTER_INSTRUCTIONS_MAX)
		return -E2BIG;
	memcpy(code, f->code, f->count * sizeof(code[0]));
	for (unsigned i = 0; i < f->count; i++)
		if (code[i].code == (BPF_RET | BPF_K) && code[i].k == SECCOMP_RET_KILL_PROCESS)
			code[i].k = SECCOMP_RET_LOG;
	return install(code, f->count);
}

/* #calls start main: prctl(PR_SET_NAME) */
int filter_install(const struct filter *f, struct error *e)
{
	int r;

	if (mode == FILTER_OFF)
		return 0;
	if (f->thread)
		(void)prctl(PR_SET_NAME, f->thread, 0, 0, 0); /* only for people */
	r = mode == FILTER_LOG ? install_logging(f) : install(f->code, f->count);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r,
			       "cannot limit the VMM's system calls (seccomp): the kernel needs "
			       "CONFIG_SECCOMP_FILTER, and memory for filters")
		     : 0;
}
