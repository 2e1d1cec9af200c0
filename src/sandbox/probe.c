/* The guest has four pages: three levels of page tables that map the first 2 MiB to themselves, and
 * the loop. Its counter is read back from a register, so a loop that the ceiling cuts short still
 * yields a speed.
 *
 * The ceiling is a POSIX timer for this thread. Its signal is blocked everywhere but inside KVM_RUN
 * (KVM_SET_SIGNAL_MASK). So it needs no handler, and a signal outside of KVM_RUN is not lost. */
#include "sandbox/probe.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "vmm/kvm.h"

enum {
	PAGE = 4096,
	PML4_AT = 0,
	PDPT_AT = PAGE,
	PD_AT = 2 * PAGE,
	CODE_AT = 3 * PAGE,
	MEMORY_BYTES = 4 * PAGE,
	LOOP_INSTRUCTIONS = 2,
	WARM_ROUNDS = 100,
	ROUNDS = 50 * 1000,
	KERNEL_SIGSET_BYTES = 8,
};

/* dec %ecx; jnz back to it; out %al, $0x80 */
static const uint8_t loop_code[] = {0xff, 0xc9, 0x75, 0xfc, 0xe6, 0x80};

struct probe_vm {
	int vm_fd, vcpu_fd;
	uint8_t *memory;
	struct kvm_run *run;
	size_t run_bytes;
};

static void vm_done(struct probe_vm *v)
{
	if (v->run)
		(void)munmap(v->run, v->run_bytes); /* our own mapping */
	if (v->vcpu_fd >= 0)
		(void)close(v->vcpu_fd); /* thrown away */
	if (v->vm_fd >= 0)
		(void)close(v->vm_fd); /* thrown away */
	if (v->memory)
		(void)munmap(v->memory, MEMORY_BYTES); /* our own mapping */
}

static void put_le64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v)); /* x86 on both sides */
}

static int add_memory(struct probe_vm *v)
{
	struct kvm_userspace_memory_region region = {.memory_size = MEMORY_BYTES};
	void *p = mmap(
		NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	v->memory = p;
	put_le64(v->memory + PML4_AT, PDPT_AT | 0x3); /* present, writable */
	put_le64(v->memory + PDPT_AT, PD_AT | 0x3);
	put_le64(v->memory + PD_AT, 0x83); /* 2 MiB page at 0 */
	memcpy(v->memory + CODE_AT, loop_code, sizeof(loop_code));
	region.userspace_addr = (uintptr_t)v->memory;
	return kvm_ioctl(v->vm_fd, KVM_SET_USER_MEMORY_REGION, &region);
}

/* Adds an APIC. A VM without a local APIC in the kernel flips static branches of KVM's: that would
 * interrupt all of the host's processors and patch kernel text, twice per probe. */
static int add_apic(struct probe_vm *v)
{
	struct kvm_enable_cap cap = {.cap = KVM_CAP_SPLIT_IRQCHIP, .args = {24}};

	return kvm_ioctl(v->vm_fd, KVM_ENABLE_CAP, &cap);
}

static int make_vm(int kvm_fd, struct probe_vm *v)
{
	int r = kvm_ioctl_n(kvm_fd, KVM_CREATE_VM, 0);

	if (r < 0)
		return r;
	v->vm_fd = r;
	r = add_memory(v);
	if (r == 0)
		r = add_apic(v);
	if (r < 0)
		return r;
	r = kvm_ioctl_n(v->vm_fd, KVM_CREATE_VCPU, 0);
	if (r < 0)
		return r;
	v->vcpu_fd = r;
	r = kvm_ioctl_n(kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (r < 0)
		return r;
	v->run_bytes = (size_t)r;
	v->run = mmap(NULL, v->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, v->vcpu_fd, 0);
	if (v->run == MAP_FAILED) {
		v->run = NULL;
		return -errno;
	}
	return 0;
}

static int set_long_mode(struct probe_vm *v)
{
	struct kvm_segment code = {.limit = 0xffffffff,
		.selector = 0x8,
		.type = 11,
		.present = 1,
		.s = 1,
		.l = 1,
		.g = 1};
	struct kvm_segment data = {.limit = 0xffffffff,
		.selector = 0x10,
		.type = 3,
		.present = 1,
		.s = 1,
		.db = 1,
		.g = 1};
	struct kvm_sregs s;
	int r = kvm_ioctl(v->vcpu_fd, KVM_GET_SREGS, &s);

	if (r < 0)
		return r;
	s.cs = code;
	s.ds = s.es = s.fs = s.gs = s.ss = data;
	s.cr3 = PML4_AT;
	s.cr4 = 0x20;	    /* PAE */
	s.efer = 0x500;	    /* LME, LMA */
	s.cr0 = 0x80000033; /* PG, NE, ET, MP, PE */
	return kvm_ioctl(v->vcpu_fd, KVM_SET_SREGS, &s);
}

/* Runs the loop until its end or the ceiling's signal (-EINTR, which is also a result). *left is
 * the number of rounds not done. */
static int run_rounds(struct probe_vm *v, uint32_t rounds, uint32_t *left, uint64_t *ns)
{
	struct kvm_regs regs = {.rip = CODE_AT, .rflags = 0x2, .rcx = rounds};
	uint64_t begin;
	int r = kvm_ioctl(v->vcpu_fd, KVM_SET_REGS, &regs);

	if (r < 0)
		return r;
	/* this thread's CPU time: a busy host is not a slow one */
	begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	/* not kvm_ioctl(), which would go on after the signal */
	r = ioctl(v->vcpu_fd, KVM_RUN, 0) < 0 ? -errno : 0;
	*ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
	if (r == 0 && v->run->exit_reason != KVM_EXIT_IO)
		return -ENOEXEC;
	if (r < 0 && r != -EINTR)
		return r;
	*left = kvm_ioctl(v->vcpu_fd, KVM_GET_REGS, &regs) == 0 ? (uint32_t)regs.rcx : rounds;
	return r;
}

static int unblock_in_guest(struct probe_vm *v, int signo)
{
	struct {
		struct kvm_signal_mask head;
		uint8_t set[KERNEL_SIGSET_BYTES];
	} m = {.head.len = KERNEL_SIGSET_BYTES};
	sigset_t now;

	(void)pthread_sigmask(SIG_SETMASK, NULL, &now); /* reading cannot fail */
	(void)sigdelset(&now, signo);			/* a valid signal */
	memcpy(m.set, &now, sizeof(m.set));
	return kvm_ioctl(v->vcpu_fd, KVM_SET_SIGNAL_MASK, &m);
}

static int start_ceiling(timer_t *ret)
{
	struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
	struct itimerspec when = {.it_value.tv_nsec = PROBE_CEILING_MS * (long)NS_PER_MS};

	ev._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &ev, ret) < 0)
		return -errno;
	if (timer_settime(*ret, 0, &when, NULL) < 0) {
		int err = errno;

		(void)timer_delete(*ret); /* just made */
		return -err;
	}
	return 0;
}

static int measure(struct probe_vm *v, struct probe *ret)
{
	uint32_t left = 0;
	uint64_t ns = 0;
	int r = run_rounds(v, WARM_ROUNDS, &left, &ns); /* page faults, first entry */

	if (r < 0 && r != -EINTR)
		return r;
	*ret = (struct probe){
		.instructions = (WARM_ROUNDS - left) * LOOP_INSTRUCTIONS, .ns = ns, .slow = true};
	if (r < 0)
		return 0; /* no time is left */
	r = run_rounds(v, ROUNDS, &left, &ns);
	if (r < 0 && r != -EINTR)
		return r;
	ret->instructions = (uint64_t)(ROUNDS - left) * LOOP_INSTRUCTIONS;
	ret->ns = ns;
	ret->mips = (double)ret->instructions * 1000.0 / (double)(ns ? ns : 1);
	ret->slow = ret->mips < PROBE_SLOW_MIPS;
	return 0;
}

static int measure_below_ceiling(struct probe_vm *v, struct probe *ret)
{
	struct timespec none = {0};
	sigset_t set, old;
	timer_t timer;
	int r;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGRTMIN); /* a valid signal */
	r = -pthread_sigmask(SIG_BLOCK, &set, &old);
	if (r < 0)
		return r;
	r = unblock_in_guest(v, SIGRTMIN);
	if (r == 0)
		r = start_ceiling(&timer);
	if (r == 0) {
		r = measure(v, ret);
		(void)timer_delete(timer); /* made above */
	}
	(void)sigtimedwait(&set, NULL, &none); /* takes the signal if it came */
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

int probe_speed(int kvm_fd, struct probe *ret, struct error *e)
{
	struct probe_vm v = {.vm_fd = -1, .vcpu_fd = -1};
	int r = make_vm(kvm_fd, &v);

	if (r == 0)
		r = set_long_mode(&v);
	*ret = (struct probe){.slow = true};
	for (int i = 0; r == 0 && ret->slow && i < PROBE_TRIES; i++) {
		struct probe p = {0};

		r = measure_below_ceiling(&v, &p);
		if (i == 0 || p.mips > ret->mips)
			*ret = p;
	}
	vm_done(&v);
	if (r < 0)
		return error_set_errno(
			e, ERROR_HOST, -r, "KVM cannot run a minimal virtual machine on this host");
	return 0;
}

int probe_check(const struct probe *p, struct error *e)
{
	if (!p->slow)
		return 0;
	return error_set(e, ERROR_HOST_SLOW, ENOTSUP,
		"guest kernel code is interpreted at about %.*f million instructions per second on "
		"this "
		"host; booting a guest would take minutes: use a host with real hardware "
		"virtualisation, "
		"or run under `tools/kvmhost -- mayfly ...`",
		p->mips < 10 ? 1 : 0, p->mips);
}

int probe_host(struct error *e)
{
	_cleanup_close_ int kvm_fd = kvm_open(e);
	struct probe probe;
	int r = kvm_fd < 0 ? kvm_fd : probe_speed(kvm_fd, &probe, e);

	return r < 0 ? r : probe_check(&probe, e);
}

bool probe_hypervisor(char vendor[PROBE_VENDOR_BYTES])
{
	unsigned a = 0, b = 0, c = 0, d = 0;

	vendor[0] = '\0';
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 31)))
		return false;
	__cpuid(0x40000000, a, b, c, d);
	memcpy(vendor, &b, 4);
	memcpy(vendor + 4, &c, 4);
	memcpy(vendor + 8, &d, 4);
	vendor[12] = '\0';
	for (char *p = vendor; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '\0'; /* "KVMKVMKVM\0\0\0", or no signature at all */
	return true;
}

const char *probe_hypervisor_name(const char *vendor)
{
	static const struct {
		const char *vendor, *name;
	} known[] = {
		{"KVMKVMKVM", "KVM"},
		{"Linux KVM Hv", "KVM"},
		{"TCGTCGTCGTCG", "QEMU without hardware virtualisation (TCG)"},
		{"Microsoft Hv", "Hyper-V"},
		{"VMwareVMware", "VMware"},
		{"XenVMMXenVMM", "Xen"},
		{"VBoxVBoxVBox", "VirtualBox"},
		{"bhyve bhyve ", "bhyve"},
		{" lrpepyh  vr", "Parallels"},
		{"ACRNACRNACRN", "ACRN"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(vendor, known[i].vendor) == 0)
			return known[i].name;
	return *vendor ? vendor : "an unnamed hypervisor";
}
