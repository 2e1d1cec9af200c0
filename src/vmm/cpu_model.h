/* Whether a guest's CPU and this host's go together.
 *
 * What matters for that are the *facts* of a CPU: feature words, XSAVE's layout, the width of
 * physical addresses, what KVM itself offers, IA32_ARCH_CAPABILITIES. The facts of a host are what its
 * KVM supports, so they follow its kernel and the parameters of its modules too. A guest fits when
 * each of its facts is within the host's.
 *
 * A snapshot carries a hash of its host's facts: where it equals this host's, nothing else needs to
 * be compared. Asking KVM takes 15 to 300 us (CPUID leaves the virtual machine that a host may be),
 * so whoever starts many VMs keeps the hash (sandbox/host_cpu.h).
 *
 * Facts of several hosts have a common part: a template that is to run on all of them gets no more
 * than that. As text they travel from host to host. */
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

/* arch_capabilities: of MSR 0x10a; 0 where it is not there or not known. */
void cpu_facts_of(
	const struct kvm_cpuid_table *t, uint64_t arch_capabilities, struct cpu_facts *ret);
/* This host's, as KVM supports them. */
int cpu_facts_here(int kvm_fd, struct cpu_facts *ret, struct error *e);
/* Never 0. */
uint64_t cpu_facts_hash(const struct cpu_facts *f);

/* 0, or ERROR_INCOMPATIBLE naming what is missing here. */
int cpu_facts_check(const struct cpu_facts *guest, const struct cpu_facts *host, struct error *e);

/* Leaves in f what both have. ERROR_INCOMPATIBLE for CPUs of different vendors. */
int cpu_facts_common(struct cpu_facts *f, const struct cpu_facts *other, struct error *e);
/* Takes from a guest's CPUID and capabilities what f does not have. */
void cpu_facts_limit(const struct cpu_facts *f, struct kvm_cpuid_table *t, uint64_t *capabilities);

/* A line of text per fact. Reading takes each fact exactly once, and nothing else: -EINVAL. */
int cpu_facts_print(const struct cpu_facts *f, struct buf *out);
int cpu_facts_parse(const char *text, struct cpu_facts *ret);

#endif
