#include "jail/deny.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Calls that the C library may not know yet. */
enum {
	NR_PIDFD_GETFD = 438,
	NR_PROCESS_MADVISE = 440,
	NR_MOUNT_SETATTR = 442,
	NR_QUOTACTL_FD = 443,
	NR_MEMFD_SECRET = 447,
	NR_SET_MEMPOLICY_HOME_NODE = 450,
	NR_FCHMODAT2 = 452,
	LAST_JUDGED = NR_FCHMODAT2, /* newer ones do not exist here */
	X32_FIRST = 0x40000000,
	INSTRUCTIONS_MAX = 256
};

struct refusal {
	unsigned call;
	int err;
	bool jails; /* not refused to a program that makes jails */
};

static const struct refusal refusals[] = {
	/* attack surface of the kernel that no builder needs */
	{SYS_bpf, EPERM},
	{SYS_perf_event_open, EPERM},
	{SYS_userfaultfd, EPERM},
	{SYS_io_uring_setup, ENOSYS}, /* libuv does without */
	{SYS_io_uring_enter, ENOSYS},
	{SYS_io_uring_register, ENOSYS},
	{SYS_modify_ldt, EPERM},
	{SYS_uselib, ENOSYS},
	{SYS_lookup_dcookie, EPERM},
	/* keys */
	{SYS_add_key, EPERM},
	{SYS_request_key, EPERM},
	{SYS_keyctl, EPERM, .jails = true},
	/* other processes */
	{SYS_ptrace, EPERM},
	{SYS_process_vm_readv, EPERM},
	{SYS_process_vm_writev, EPERM},
	{NR_PROCESS_MADVISE, EPERM},
	{NR_PIDFD_GETFD, EPERM},
	{SYS_kcmp, EPERM},
	{SYS_migrate_pages, EPERM},
	{SYS_move_pages, EPERM},
	{SYS_setns, EPERM},
	/* its flags are in memory; the C library falls back to clone */
	{SYS_clone3, ENOSYS, .jails = true},
	/* opening files by handle, which reaches every file of a file system */
	{SYS_name_to_handle_at, EPERM},
	{SYS_open_by_handle_at, EPERM},
	{SYS_fanotify_init, EPERM},
	{SYS_fanotify_mark, EPERM},
	{SYS_quotactl, EPERM},
	{NR_QUOTACTL_FD, EPERM},
	{SYS_swapon, EPERM},
	{SYS_swapoff, EPERM},
	/* newer calls to mount; mount(8) falls back to the older */
	{SYS_fsopen, ENOSYS},
	{SYS_fsconfig, ENOSYS},
	{SYS_fsmount, ENOSYS},
	{SYS_fspick, ENOSYS},
	{SYS_move_mount, ENOSYS},
	{SYS_open_tree, ENOSYS},
	{NR_MOUNT_SETATTR, ENOSYS, .jails = true},
	/* the machine */
	{SYS_kexec_load, EPERM},
	{SYS_kexec_file_load, EPERM},
	{SYS_init_module, EPERM},
	{SYS_finit_module, EPERM},
	{SYS_delete_module, EPERM},
	{SYS_reboot, EPERM},
	{SYS_acct, EPERM},
	{SYS_syslog, EPERM},
	{SYS_settimeofday, EPERM},
	{SYS_clock_settime, EPERM},
	{SYS_clock_adjtime, EPERM},
	{SYS_adjtimex, EPERM},
	{SYS_iopl, EPERM},
	{SYS_ioperm, EPERM},
	{SYS_vhangup, EPERM},
	{SYS_sethostname, EPERM},
	{SYS_setdomainname, EPERM},
	{SYS_mbind, EPERM},
	{SYS_set_mempolicy, EPERM},
	{NR_SET_MEMPOLICY_HOME_NODE, EPERM},
	/* calls that are obsolete, or too new to be needed */
	{SYS_ustat, ENOSYS},
	{SYS_sysfs, ENOSYS},
	{SYS__sysctl, ENOSYS},
	{SYS_create_module, ENOSYS},
	{SYS_get_kernel_syms, ENOSYS},
	{SYS_query_module, ENOSYS},
	{SYS_nfsservctl, ENOSYS},
	{SYS_vmsplice, EPERM},
	{NR_MEMFD_SECRET, ENOSYS},
};

static const struct refusal mounts[] = {
	{SYS_mount, EPERM, .jails = true},
	{SYS_umount2, EPERM, .jails = true},
	{SYS_pivot_root, EPERM, .jails = true},
};

struct program {
	struct sock_filter code[INSTRUCTIONS_MAX];
	unsigned count; /* above INSTRUCTIONS_MAX: it did not fit */
};

static void put(struct program *p, unsigned code, uint32_t k, unsigned yes, unsigned no)
{
	if (p->count < INSTRUCTIONS_MAX)
		p->code[p->count] =
			(struct sock_filter){(uint16_t)code, (uint8_t)yes, (uint8_t)no, k};
	p->count++;
}

static void load(struct program *p, size_t offset)
{
	put(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void answer(struct program *p, uint32_t what)
{
	put(p, BPF_RET | BPF_K, what, 0, 0);
}

static void refuse(struct program *p, int err)
{
	answer(p, SECCOMP_RET_ERRNO | (uint32_t)err);
}

/* If the call is `call`, loads the lower half of its argument; else skips the next `length`
 * instructions, which are for this call and end in a return. */
static void begin_call(struct program *p, unsigned call, unsigned argument, unsigned length)
{
	put(p, BPF_JMP | BPF_JEQ | BPF_K, call, 0, length + 1);
	load(p, offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t));
}

static void refuse_all(struct program *p, const struct refusal *r, size_t n, bool makes_jails)
{
	for (size_t i = 0; i < n; i++) {
		if (makes_jails && r[i].jails)
			continue;
		put(p, BPF_JMP | BPF_JEQ | BPF_K, r[i].call, 0, 1);
		refuse(p, r[i].err);
	}
}

static void refuse_flags(struct program *p, unsigned call, uint32_t flags)
{
	begin_call(p, call, 0, 3);
	put(p, BPF_JMP | BPF_JSET | BPF_K, flags, 0, 1);
	refuse(p, EPERM);
	answer(p, SECCOMP_RET_ALLOW);
}

static void allow_families(struct program *p, unsigned call, bool network)
{
	static const unsigned families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};
	unsigned n = network ? ARRAY_SIZE(families) : 1;

	begin_call(p, call, 0, 2 * n + 1);
	for (unsigned i = 0; i < n; i++) {
		put(p, BPF_JMP | BPF_JEQ | BPF_K, families[i], 0, 1);
		answer(p, SECCOMP_RET_ALLOW);
	}
	refuse(p, EAFNOSUPPORT);
}

/* Refuses ioctls that push input into a terminal. */
static void refuse_terminals(struct program *p)
{
	begin_call(p, SYS_ioctl, 1, 5);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, TIOCSTI, 0, 1);
	refuse(p, EPERM);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, TIOCLINUX, 0, 1);
	refuse(p, EPERM);
	answer(p, SECCOMP_RET_ALLOW);
}

/* What depends on arguments. A program that makes jails needs the namespaces. It also starts VMMs,
 * whose every run would wait for the judgement of its ioctl. */
static void judge_arguments(struct program *p, const struct deny_options *o)
{
	static const uint32_t elsewhere =
		CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWCGROUP | 0x80 /* CLONE_NEWTIME */;
	static const uint32_t mounting = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
	uint32_t flags = o->may_mount ? elsewhere : elsewhere | mounting;

	if (!o->makes_jails) {
		refuse_flags(p, SYS_clone, flags & ~0x80U); /* there, these bits are the signal's */
		refuse_flags(p, SYS_unshare, flags);
	}
	allow_families(p, SYS_socket, o->network);
	allow_families(p, SYS_socketpair, o->network);
	if (!o->makes_jails)
		refuse_terminals(p);
}

static void compose(struct program *p, const struct deny_options *o)
{
	load(p, offsetof(struct seccomp_data, arch));
	put(p, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	answer(p, SECCOMP_RET_KILL_PROCESS);
	load(p, offsetof(struct seccomp_data, nr));
	put(p, BPF_JMP | BPF_JGE | BPF_K, X32_FIRST, 0, 1);
	answer(p, SECCOMP_RET_KILL_PROCESS);
	put(p, BPF_JMP | BPF_JGT | BPF_K, LAST_JUDGED, 0, 1);
	refuse(p, ENOSYS);
	refuse_all(p, refusals, ARRAY_SIZE(refusals), o->makes_jails);
	if (!o->may_mount)
		refuse_all(p, mounts, ARRAY_SIZE(mounts), o->makes_jails);
	judge_arguments(p, o);
	answer(p, SECCOMP_RET_ALLOW);
}

int deny_install(const struct deny_options *o)
{
	struct program p = {.count = 0};
	struct sock_fprog f;

	compose(&p, o);
	if (p.count > INSTRUCTIONS_MAX)
		return -E2BIG;
	f = (struct sock_fprog){.len = (unsigned short)p.count, .filter = p.code};
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &f) < 0 ? -errno : 0;
}
