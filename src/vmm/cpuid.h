/* Makes the guest's CPUID once, at boot, from what KVM supports here. A snapshot carries it.
 *
 * This module turns tables into tables and does not call KVM. It masks what a template must not
 * depend on: features whose state no snapshot has, and those that only some hosts of a kind have
 * (listed in cpuid.c). cpu_model.h masks what the hosts of one fleet do not share. */
#ifndef VMM_CPUID_H
#define VMM_CPUID_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/kvm.h"

enum cpuid_register { EAX, EBX, ECX, EDX };

/* Returns the entry of this leaf, or NULL. A leaf without subleaves matches every index. */
struct kvm_cpuid_entry2 *cpuid_find(struct kvm_cpuid_table *t, uint32_t function, uint32_t index);

uint32_t *cpuid_word(struct kvm_cpuid_entry2 *c, enum cpuid_register reg);

bool cpuid_is_intel(const struct kvm_cpuid_table *t);

/* Turns what KVM supports into the CPUID of a guest with `cpus` CPUs. Adds the hypervisor bit, the
 * TSC deadline timer and a topology of one package with `cpus` cores. Removes performance counters,
 * nested virtualisation and asynchronous page faults. cpuid_set_apic_id fills in the per-CPU fields
 * later. */
void cpuid_shape(struct kvm_cpuid_table *t, unsigned cpus);

/* Fits leaf 0xD to the components that XCR0 still allows, after bits of it were cleared. Drops the
 * other components' subleaves and recomputes the sizes. */
void cpuid_fit_xsave(struct kvm_cpuid_table *t);

void cpuid_set_apic_id(struct kvm_cpuid_table *t, unsigned id);

#endif
