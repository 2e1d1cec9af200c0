/* The state of one virtual CPU: creation, CPUID, registers at boot, save and load.
 * Threads that run vCPUs belong to vm.c. */
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

int vcpu_create(struct vcpu *v, int kvm_fd, int vm_fd, unsigned id, struct error *e);
void vcpu_done(struct vcpu *v);

/* t: of cpuid_shape; gets this CPU's APIC id. */
int vcpu_set_cpuid(struct vcpu *v, struct kvm_cpuid_table *t, struct error *e);

/* 64-bit long mode at `entry` with `boot_params` in RSI: Linux's 64-bit boot protocol. Page tables
 * and GDT are in guest memory already (boot.h). Only for the first vCPU. */
int vcpu_set_boot_registers(struct vcpu *v, gpa_t entry, gpa_t boot_params, gpa_t page_table,
	gpa_t gdt, struct error *e);

/* Of each vCPU of a booted VM, after its CPUID: what the guest reads of IA32_ARCH_CAPABILITIES, and
 * fast strings. AMD's have neither. */
int vcpu_set_boot_msrs(struct vcpu *v, bool intel, uint64_t capabilities, struct error *e);

/* Everything KVM knows about a stopped vCPU. load puts it back into a fresh one whose CPUID is set;
 * malformed input is ERROR_BAD_SNAPSHOT, state that this host refuses ERROR_INCOMPATIBLE. */
int vcpu_save(struct vcpu *v, struct buf *out, struct error *e);
int vcpu_load(struct vcpu *v, struct reader *in, struct error *e);

#endif
