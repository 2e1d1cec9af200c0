/* What vm.c (set-up), vm_run.c (threads, exits) and vm_snapshot.c share. */
#ifndef VMM_VM_INTERNAL_H
#define VMM_VM_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "vmm/acpi.h"
#include "vmm/backing.h"
#include "vmm/disk.h"
#include "vmm/ioapic.h"
#include "vmm/layers.h"
#include "vmm/memory.h"
#include "vmm/serial.h"
#include "vmm/vcpu.h"
#include "vmm/virtio.h"
#include "vmm/vm.h"

/* Device slots: rng, vsock, then the disks. Each has a page of MMIO space and an I/O APIC pin. */
#define VM_MMIO_BASE UINT64_C(0xd0000000)
enum { VM_SLOT_RNG, VM_SLOT_VSOCK, VM_SLOT_DISK, VM_SLOTS = VM_SLOT_DISK + SNAPSHOT_DISKS_MAX };
/* Three pages for KVM and one below, on Intel CPUs without unrestricted guests. */
#define VM_TSS_BASE UINT64_C(0xfffbd000)
enum { VM_SLOT_GSI = 5, VM_SERIAL_GSI = 4 };

struct vm_slot {
	struct vm *vm;
	unsigned pin;
	struct virtio_device *device; /* owned, NULL: empty slot */
};

/* States of a vCPU thread, under vm->lock:
 *	PARKED	waits for vm->running; its registers are complete and may be read or written
 *	RUNNING	in KVM_RUN or handling an exit
 *	ENDED	the guest has ended; the thread has returned */
enum vcpu_state { VCPU_PARKED, VCPU_RUNNING, VCPU_ENDED };

struct vm_cpu {
	struct vm *vm;
	struct vcpu vcpu;
	pthread_t thread;
	bool has_thread;
	enum vcpu_state state;
	atomic_ullong exits;
};

struct vm {
	int kvm_fd, fd, pagemap_fd; /* owned */
	struct guest_memory memory;
	unsigned cpu_count;
	struct vm_cpu cpus[KVM_CPUS_MAX];
	struct ioapic ioapic;
	struct serial serial;
	struct vm_slot slots[VM_SLOTS];
	uint64_t disk_bytes[SNAPSHOT_DISKS_MAX];
	bool disk_read_only[SNAPSHOT_DISKS_MAX];
	unsigned image_deltas[SNAPSHOT_DISKS_MAX]; /* the lowest of each disk, vm_save's */
	unsigned disk_count;
	struct kvm_cpuid_table *cpuid; /* owned: the guest's, without per-CPU fields */
	uint64_t capabilities;	       /* IA32_ARCH_CAPABILITIES that the guest was given */
	uint64_t host_cpu;	       /* hash of this host's facts (cpu_model.h) */
	uint32_t tsc_khz;	       /* of the host that the guest booted on; 0: not known */
	bool devices_resumed;
	uint64_t frozen_ns;	   /* KVM's clock of a frozen guest; 0: it is not */
	uint64_t clock_ns;	   /* KVM's clock for a restored guest's first run; 0: booted */
	struct memory_stack stack; /* what the memory stands on */
	atomic_ullong disk_tops[SNAPSHOT_DISKS_MAX]; /* see vm_stats */

	/* Held by whoever stops, starts or serves the guest from outside of its vCPUs. Taken before
	 * `lock` below and the devices' locks. */
	pthread_mutex_t life;

	pthread_mutex_t lock; /* covers all below and the vCPUs' states */
	pthread_cond_t wake;  /* vCPU threads wait here for running or stopping */
	pthread_cond_t parked;
	pthread_cond_t never;	     /* never signalled; serves to wait for a time */
	struct backing backing;	     /* the files under the memory */
	struct snapshot_needs needs; /* of the next snapshot */
	bool running;		     /* vCPUs may run */
	bool stopping;		     /* threads must return */
	atomic_bool halt;	     /* !running || stopping, read without the lock */
	atomic_bool undone;	     /* a device has work left for whoever runs next */
	enum vm_end end;
	char end_why[160];
	uint8_t power_off_value;
	int event_fd; /* owned */
	atomic_ullong first_exit_ns;
};

/* To be called after the VM's layers or deltas have changed. */
void vm_update_needs(struct vm *vm);

int vm_start_threads(struct vm *vm, struct error *e);
void vm_stop_threads(struct vm *vm);

/* vm_pause and vm_resume for a caller that holds `life`. The first also tells whether the guest was
 * running. */
int vm_stop_cpus(struct vm *vm, bool *ret_was_running, struct error *e);
void vm_start_cpus(struct vm *vm);

#endif
