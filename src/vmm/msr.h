/* A vCPU's model-specific registers: which belong to a snapshot, reading and writing them. */
#ifndef VMM_MSR_H
#define VMM_MSR_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>

enum { MSRS_MAX = 512 };
enum {
	MSR_IA32_TSC = 0x10,
	MSR_IA32_ARCH_CAPABILITIES = 0x10a,
	MSR_IA32_MISC_ENABLE = 0x1a0,
	MSR_IA32_TSC_DEADLINE = 0x6e0,
};

struct msr_table {
	struct kvm_msrs head;
	struct kvm_msr_entry entries[MSRS_MAX];
};

/* Not: Hyper-V's, performance counters, what belongs to the host, what the guest's CPUID hides. */
bool msr_is_saved(uint32_t msr);

/* All of KVM's list that are saved and that this vCPU has. */
int msr_get_all(int kvm_fd, int vcpu_fd, struct msr_table *t);

/* Newer versions of KVM list more MSRs than older ones: those of them that are zero are left out
 * where KVM does not know them. -EINVAL: it refuses *ret_refused, which has another value. t is
 * changed. */
int msr_set_all(int vcpu_fd, struct msr_table *t, uint32_t *ret_refused);

/* One: 0 or -errno; -ENXIO: this vCPU does not have it. */
int msr_get(int vcpu_fd, uint32_t index, uint64_t *ret);
int msr_set(int vcpu_fd, uint32_t index, uint64_t value);

#endif
