/* Decides whether a guest's CPU fits this host's.
 *
 * What matters are the *facts* of a CPU: feature words, XSAVE's layout, the width of physical
 * addresses, KVM's own features and IA32_ARCH_CAPABILITIES. A host's facts are what its KVM
 * supports, so they also depend on its kernel and on module parameters. A guest fits if each of its
 * facts is within the host's.
 *
 * A snapshot carries a hash of its host's facts. If it equals this host's hash, nothing else is
 * compared. Asking KVM takes 15 to 300 us, as CPUID exits to the hypervisor where the host is
 * itself a VM. So a process that starts many VMs keeps the hash (sandbox/host_cpu.h).
 *
 * cpu_facts_common computes what several hosts share. A template for all of them gets no more than
 * that. Facts travel between hosts as text. */
#ifndef VMM_CPU_MODEL_H
#define VMM_CPU_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "vmm/kvm.h"

enum { CPU_FACTS_WORDS = 52, CPU_FACTS_TEXT_MAX = 16 * 1024 };

struct cpu_facts {
	uint32_t word[CPU_FACTS_WORDS];
};

/* arch_capabilities: value of MSR 0x10a, or 0 if it does not exist or is not known. */
void cpu_facts_of(
	const struct kvm_cpuid_table *t, uint64_t arch_capabilities, struct cpu_facts *ret);
/* The facts of this host, as KVM supports them. */
int cpu_facts_here(int kvm_fd, struct cpu_facts *ret, struct error *e);
/* Never 0. */
uint64_t cpu_facts_hash(const struct cpu_facts *f);

/* Returns 0, or ERROR_INCOMPATIBLE naming what this host lacks. */
int cpu_facts_check(const struct cpu_facts *guest, const struct cpu_facts *host, struct error *e);

/* Keeps in f only what both have. ERROR_INCOMPATIBLE for CPUs of different vendors. */
int cpu_facts_common(struct cpu_facts *f, const struct cpu_facts *other, struct error *e);
/* Removes from a guest's CPUID and capabilities what f does not have. */
void cpu_facts_limit(const struct cpu_facts *f, struct kvm_cpuid_table *t, uint64_t *capabilities);

/* One line of text per fact. The parser accepts each fact exactly once and nothing else:
 * -EINVAL. */
int cpu_facts_print(const struct cpu_facts *f, struct buf *out);
int cpu_facts_parse(const char *text, struct cpu_facts *ret);

#endif
