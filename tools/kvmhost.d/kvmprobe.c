/*
 * Says how fast /dev/kvm runs guest kernel code.
 *
 * That the device is there does not mean that guests run at speed: below some hypervisors guest
 * kernel code is interpreted, a thousand times slower than user code. So this makes a throw-away VM
 * with one page of 32-bit code at CPL 0 (a loop of 200,000 instructions, then HLT) and times it.
 * The best of three runs counts, because the machine may be busy.
 *
 * Prints instructions per second. Exit status: 0 fast, 1 slow, 2 no usable /dev/kvm. A guest that
 * does not reach its HLT within a second is slow: an alarm ends it.
 */
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define INSTRUCTIONS 200000
#define FAST_PER_S   50000000.0
#define RUNS	     3
#define CODE_ADDRESS 0x1000

/* mov ecx, INSTRUCTIONS / 2; 1: dec ecx; jnz 1b; hlt */
static const uint8_t code[] = {
	0xb9,
	(INSTRUCTIONS / 2) & 0xff,
	(INSTRUCTIONS / 2) >> 8 & 0xff,
	(INSTRUCTIONS / 2) >> 16,
	0,
	0x49,
	0x75,
	0xfd,
	0xf4,
};

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static void on_alarm(int signal)
{
	(void)signal;
	static const char text[] = "0 instructions per second: no answer within 1 s\n";
	(void)!write(1, text, sizeof(text) - 1); /* nothing left to do about a failure */
	_exit(1);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct kvm_segment flat_segment(uint16_t selector, uint8_t type)
{
	return (struct kvm_segment){
		.limit = 0xffffffff,
		.selector = selector,
		.type = type,
		.present = 1,
		.db = 1,
		.s = 1,
		.g = 1,
	};
}

static int create_vcpu(int kvm, struct kvm_run **ret_run)
{
	int vm = ioctl(kvm, KVM_CREATE_VM, 0);
	if (vm < 0)
		die("KVM_CREATE_VM");

	uint8_t *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		die("mmap");
	memcpy(page, code, sizeof(code));
	struct kvm_userspace_memory_region slot = {
		.guest_phys_addr = CODE_ADDRESS,
		.memory_size = 4096,
		.userspace_addr = (uintptr_t)page,
	};
	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &slot) < 0)
		die("KVM_SET_USER_MEMORY_REGION");

	int vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	if (vcpu < 0)
		die("KVM_CREATE_VCPU");
	int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (size < (int)sizeof(**ret_run))
		die("KVM_GET_VCPU_MMAP_SIZE");
	*ret_run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (*ret_run == MAP_FAILED)
		die("mmap of the vCPU");

	struct kvm_sregs sregs;
	if (ioctl(vcpu, KVM_GET_SREGS, &sregs) < 0)
		die("KVM_GET_SREGS");
	sregs.cs = flat_segment(8, 11);
	sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = flat_segment(16, 3);
	sregs.cr0 |= 1;
	if (ioctl(vcpu, KVM_SET_SREGS, &sregs) < 0)
		die("KVM_SET_SREGS");
	return vcpu;
}

static double run_s(int vcpu, struct kvm_run *run)
{
	struct kvm_regs regs = {.rip = CODE_ADDRESS, .rflags = 2};
	if (ioctl(vcpu, KVM_SET_REGS, &regs) < 0)
		die("KVM_SET_REGS");

	double start = now_s();
	if (ioctl(vcpu, KVM_RUN, 0) < 0)
		die("KVM_RUN");
	if (run->exit_reason != KVM_EXIT_HLT) {
		fprintf(stderr, "the guest stopped with exit reason %u\n", run->exit_reason);
		exit(2);
	}
	return now_s() - start;
}

int main(void)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		die("/dev/kvm");
	if (ioctl(kvm, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
		die("KVM_GET_API_VERSION");

	signal(SIGALRM, on_alarm);
	alarm(1);
	struct kvm_run *run = NULL;
	int vcpu = create_vcpu(kvm, &run);
	double best = 1;
	for (int i = 0; i < RUNS; i++) {
		double s = run_s(vcpu, run);
		if (s < best)
			best = s;
		if (INSTRUCTIONS / best >= FAST_PER_S)
			break;
	}
	printf("%.0f instructions per second\n", INSTRUCTIONS / best);
	return INSTRUCTIONS / best < FAST_PER_S;
}
