#include "floor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/reader.h"
#include "proto/snapshot.h"
#include "vmm/ioapic.h"

static int failed(const char *what)
{
	(void)fprintf(
		stderr, "floor: %s: %s\n", what, strerror(errno)); /* stderr is all there is */
	return -1;
}

/* --- preparation --- */

static void load_vcpu(struct floor_state *s, struct reader *in)
{
	uint32_t n;

	reader_copy(in, &s->vcpu, sizeof(s->vcpu));
	n = reader_le32(in);
	reader_copy(in, s->xsave.bytes, n <= FLOOR_XSAVE_MAX ? n : 0);
	s->msrs.head.nmsrs = reader_le32(in);
	if (s->msrs.head.nmsrs > FLOOR_MSRS_MAX)
		in->bad = true;
	for (uint32_t i = 0; i < s->msrs.head.nmsrs && !in->bad; i++) {
		s->msrs.entries[i].index = reader_le32(in);
		s->msrs.entries[i].data = reader_le64(in);
	}
}

int floor_load(struct floor_state *s, const void *state, size_t bytes)
{
	struct snapshot_reader r;
	struct error e = {0};
	struct reader cpuid, vcpu;

	if (snapshot_reader_open(&r, state, bytes, &e) < 0) {
		(void)fprintf(stderr, "floor: %s\n", e.message); /* stderr is all there is */
		return -1;
	}
	cpuid = snapshot_find(&r, SNAPSHOT_CPUID, 0);
	s->cpuid.head.nent = reader_le32(&cpuid);
	if (s->cpuid.head.nent <= KVM_CPUID_ENTRIES_MAX)
		reader_copy(
			&cpuid, s->cpuid.entries, s->cpuid.head.nent * sizeof(s->cpuid.entries[0]));
	vcpu = snapshot_find(&r, SNAPSHOT_VCPU, 0);
	load_vcpu(s, &vcpu);
	if (!reader_finished(&vcpu) || !reader_finished(&cpuid)) {
		(void)fprintf(stderr, "floor: this is not the snapshot format that it knows\n");
		return -1;
	}
	return 0;
}

/* --- what is timed --- */

struct machine {
	int kvm, vm, vcpu;
	void *memory;
	struct kvm_run *run;
	size_t run_bytes;
};

static int create(const struct floor_state *s, struct machine *m)
{
	struct kvm_enable_cap split = {.cap = KVM_CAP_SPLIT_IRQCHIP, .args = {IOAPIC_PINS}};
	struct kvm_userspace_memory_region region = {.memory_size = s->memory_bytes};

	m->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (m->kvm < 0)
		return failed("/dev/kvm");
	m->vm = ioctl(m->kvm, KVM_CREATE_VM, 0);
	if (m->vm < 0)
		return failed("KVM_CREATE_VM");
	m->memory = mmap(NULL, s->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
		s->memory_fd, 0);
	if (m->memory == MAP_FAILED)
		return failed("mmap");
	region.userspace_addr = (uintptr_t)m->memory;
	if (ioctl(m->vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return failed("KVM_SET_USER_MEMORY_REGION");
	if (ioctl(m->vm, KVM_ENABLE_CAP, &split) < 0)
		return failed("KVM_CAP_SPLIT_IRQCHIP");
	m->vcpu = ioctl(m->vm, KVM_CREATE_VCPU, 0);
	if (m->vcpu < 0)
		return failed("KVM_CREATE_VCPU");
	m->run_bytes = (size_t)ioctl(m->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	m->run = mmap(NULL, m->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->vcpu, 0);
	return m->run == MAP_FAILED ? failed("kvm_run") : 0;
}

static int set_state(const struct floor_state *s, const struct machine *m)
{
	const struct {
		unsigned long request;
		const void *arg;
	} sets[] = {
		{KVM_SET_CPUID2, &s->cpuid},
		{KVM_SET_SREGS, &s->vcpu.sregs},
		{KVM_SET_REGS, &s->vcpu.regs},
		{KVM_SET_XCRS, &s->vcpu.xcrs},
		{KVM_SET_XSAVE, s->xsave.bytes},
		{KVM_SET_MSRS, &s->msrs},
		{KVM_SET_LAPIC, &s->vcpu.lapic},
		{KVM_SET_VCPU_EVENTS, &s->vcpu.events},
		{KVM_SET_MP_STATE, &s->vcpu.mp_state},
	};

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		if (ioctl(m->vcpu, sets[i].request, sets[i].arg) < 0)
			return failed("setting the vCPU's state");
	return 0;
}

static int run_once(struct machine *m)
{
	int r;

	do
		r = ioctl(m->vcpu, KVM_RUN, 0);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return failed("KVM_RUN");
	if (m->run->exit_reason != KVM_EXIT_IO) {
		(void)fprintf(stderr, "floor: exit %u\n", m->run->exit_reason);
		return -1;
	}
	return 0;
}

int floor_run(const struct floor_state *s, struct floor_times *t)
{
	struct machine m;
	uint64_t begin = clock_monotonic_ns(), exited;

	if (create(s, &m) < 0 || set_state(s, &m) < 0 || run_once(&m) < 0)
		return -1;
	exited = clock_monotonic_ns();
	(void)munmap(m.run, m.run_bytes);	 /* our own mappings and descriptors */
	(void)close(m.vcpu);			 /* no data behind it */
	(void)close(m.vm);			 /* no data behind it */
	(void)close(m.kvm);			 /* no data behind it */
	(void)munmap(m.memory, s->memory_bytes); /* our own mapping */
	t->first_exit_ns = exited - begin;
	t->teardown_ns = clock_monotonic_ns() - exited;
	return 0;
}
