/* The state of one virtual CPU: creation, CPUID, registers at boot, save and load. vm_run.c has the
 * threads that run vCPUs. */
#ifndef VMM_VCPU_H
#define VMM_VCPU_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/reader.h"
#include "vmm/kvm.h"
#include "vmm/memory.h"

struct vcpu {
	unsigned id;
	int kvm_fd;	     /* borrowed */
	int fd;		     /* owned, -1 when not created */
	struct kvm_run *run; /* owned mapping, NULL when not created */
	size_t run_bytes;
	bool has_capabilities; /* its CPUID shows IA32_ARCH_CAPABILITIES */
};

/* Creates a vCPU of the VM; fills v. On failure (ERROR_HOST), vcpu_done releases what was made. */
int vcpu_create(struct vcpu *v, int kvm_fd, int vm_fd, unsigned id, struct error *e);
void vcpu_done(struct vcpu *v);

/* t: from cpuid_shape; this function writes this CPU's APIC id into it. */
int vcpu_set_cpuid(struct vcpu *v, struct kvm_cpuid_table *t, struct error *e);

/* Starts in 64-bit long mode at `entry` with `boot_params` in RSI, by Linux's 64-bit boot protocol.
 * Page tables and GDT are already in guest memory (boot.h). Only for the first vCPU. */
int vcpu_set_boot_registers(struct vcpu *v, gpa_t entry, gpa_t boot_params, gpa_t page_table,
	gpa_t gdt, struct error *e);

/* For each vCPU of a booted VM, after its CPUID: sets IA32_ARCH_CAPABILITIES as the guest reads it,
 * and turns fast strings on. AMD CPUs have neither. */
int vcpu_set_boot_msrs(struct vcpu *v, bool intel, uint64_t capabilities, struct error *e);

/* Everything that KVM knows about a stopped vCPU. vcpu_load puts it into a fresh vCPU whose CPUID
 * is set. Malformed input is ERROR_BAD_SNAPSHOT, state that this host refuses is
 * ERROR_INCOMPATIBLE. */
int vcpu_save(struct vcpu *v, struct buf *out, struct error *e);
int vcpu_load(struct vcpu *v, struct reader *in, struct error *e);

#endif
