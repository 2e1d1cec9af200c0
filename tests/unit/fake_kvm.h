/* A KVM that is not there: ioctl and the opening of /dev/kvm are replaced at link time
 * (-Wl,--wrap). It answers for one CPU of real_cpus.h, keeps the MSRs of one vCPU, notes what it is
 * asked for, and refuses what it is told to. */
#ifndef TESTS_FAKE_KVM_H
#define TESTS_FAKE_KVM_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>

#include "real_cpus.h"

enum { FAKE_CALLS_MAX = 4096, FAKE_MSRS_MAX = 32, FAKE_CAPS_MAX = 512 };

struct fake_call {
	unsigned long request;
	uint64_t argument; /* capability, MSR */
	uint64_t value;	   /* of an MSR that is set, a capability's argument */
};

struct fake_kvm {
	enum real_cpu cpu;
	int api_version;
	int caps[FAKE_CAPS_MAX];       /* answers of KVM_CHECK_EXTENSION */
	unsigned long refused_request; /* fails with refused_errno; 0: none */
	int refused_errno;
	struct kvm_msr_entry msrs[FAKE_MSRS_MAX]; /* those that this KVM knows */
	unsigned msr_count;
	bool timer_expires; /* between the first look at the timer and the next */
	bool timer_seen;
	struct kvm_lapic_state lapic;
	struct kvm_cpuid_table cpuid; /* as set last */
	struct fake_call calls[FAKE_CALLS_MAX];
	unsigned call_count;
};

extern struct fake_kvm fake;

/* A KVM that has everything. */
void fake_kvm_reset(enum real_cpu cpu);
void fake_kvm_add_msr(uint32_t index, uint64_t data);
/* Index of the first (last) such call, -1: none. argument: UINT64_MAX for any. */
int fake_kvm_first(unsigned long request, uint64_t argument);
int fake_kvm_last(unsigned long request, uint64_t argument);

#endif
