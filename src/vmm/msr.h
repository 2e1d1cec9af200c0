/* A vCPU's model-specific registers: which of them a snapshot has, and how to read and write
 * them. */
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

/* False for MSRs of Hyper-V, of performance counters, of the host itself, and of features that the
 * guest's CPUID hides. */
bool msr_is_saved(uint32_t msr);

/* Reads all MSRs that KVM lists, a snapshot has, and this vCPU has. */
int msr_get_all(int kvm_fd, int vcpu_fd, struct msr_table *t);

/* Writes the MSRs of a table and may change the table. Newer versions of KVM list more MSRs than
 * older ones. An MSR that this KVM does not know is left out if it is zero. -EINVAL otherwise, with
 * the MSR in *ret_refused. */
int msr_set_all(int vcpu_fd, struct msr_table *t, uint32_t *ret_refused);

/* Read or write one MSR: 0 or -errno; -ENXIO: this vCPU does not have it. */
int msr_get(int vcpu_fd, uint32_t index, uint64_t *ret);
int msr_set(int vcpu_fd, uint32_t index, uint64_t value);

#endif
