/* The guest's CPUID: made once, at boot, out of what KVM supports here; a snapshot carries it.
 *
 * Tables in, tables out, no KVM. What a template must not depend on is masked here, once for all:
 * features whose state no snapshot has, and those that only some hosts of a kind have (see
 * cpuid.c). What the hosts of one fleet do not share is masked by cpu_model.h. */
#ifndef VMM_CPUID_H
#define VMM_CPUID_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/kvm.h"

enum cpuid_register { EAX, EBX, ECX, EDX };

/* The entry of this leaf, NULL: there is none. A leaf without subleaves matches every index. */
struct kvm_cpuid_entry2 *cpuid_find(struct kvm_cpuid_table *t, uint32_t function, uint32_t index);

uint32_t *cpuid_word(struct kvm_cpuid_entry2 *c, enum cpuid_register reg);

bool cpuid_is_intel(const struct kvm_cpuid_table *t);

/* Makes what KVM supports the CPUID of a guest with so many CPUs: hypervisor bit, TSC deadline timer,
 * topology of cpus cores in one package; neither performance counters, nested virtualisation nor
 * asynchronous page faults. The per-CPU fields come later (cpuid_set_apic_id). */
void cpuid_shape(struct kvm_cpuid_table *t, unsigned cpus);

/* Makes leaf 0xD agree with the components that XCR0 may have: after bits of it were cleared.
 * Drops the other components' subleaves and recomputes the sizes. */
void cpuid_fit_xsave(struct kvm_cpuid_table *t);

void cpuid_set_apic_id(struct kvm_cpuid_table *t, unsigned id);

#endif
