/* The bare KVM calls that any VMM must make to bring a snapshot to its first guest exit: what a
 * restore cannot be faster than on this host. No devices, no threads, no files but the memory's;
 * the state is at hand in KVM's own structures. */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <stddef.h>
#include <stdint.h>

#include "vmm/kvm.h"

enum { FLOOR_MSRS_MAX = 512, FLOOR_XSAVE_MAX = 16384 };

/* State of one vCPU, prepared before anything is timed. */
struct floor_state {
	int memory_fd; /* borrowed */
	uint64_t memory_bytes;
	struct kvm_cpuid_table cpuid;
	struct { /* as in a snapshot's vCPU section */
		struct kvm_mp_state mp_state;
		struct kvm_vcpu_events events;
		struct kvm_regs regs;
		struct kvm_sregs sregs;
		struct kvm_xcrs xcrs;
		struct kvm_debugregs debugregs;
		struct kvm_lapic_state lapic;
	} vcpu;
	union {
		struct kvm_xsave head;
		uint8_t bytes[FLOOR_XSAVE_MAX];
	} xsave;
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry entries[FLOOR_MSRS_MAX];
	} msrs;
};

struct floor_times {
	uint64_t first_exit_ns, teardown_ns; /* durations */
};

/* Reads a snapshot's state file into the structures. 0 or -1 after a message. */
int floor_load(struct floor_state *s, const void *state, size_t bytes);

/* One restore, to the first exit, and its teardown. 0 or -1 after a message. */
int floor_run(const struct floor_state *s, struct floor_times *t);

#endif
