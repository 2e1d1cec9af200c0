/* One microVM: memory, vCPUs, devices, and the threads that run them.
 *
 * A VM is booted from a kernel or restored from a snapshot; either way it begins paused. vm_resume
 * lets it run, vm_pause stops every vCPU between two instructions with all I/O complete. Each vCPU
 * has a thread; accesses to devices are handled in the thread of the vCPU that makes them. The
 * owner's event loop watches vm_event_fd (the guest ended) and vm_vsock_fd (host sockets).
 *
 * The calls below belong to the owner's thread. Order of set-up is chosen for speed: memory is
 * registered before the interrupt controller exists, no ioeventfd or irqfd is made (each costs a
 * grace period in the kernel). */
#ifndef VMM_VM_H
#define VMM_VM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct vm;

enum { VM_DISKS_MAX = 2, VM_DISK_LAYERS_MAX = 16 };

struct vm_disk {
	int base_fd;			   /* taken over */
	int lower_fds[VM_DISK_LAYERS_MAX]; /* read-only deltas, lowest first; taken over */
	unsigned lower_count;
	int delta_fd;	/* writable top delta, -1: read-only disk; taken over */
	uint64_t bytes; /* capacity; 0: that of the layers below */
};

struct vm_options {
	unsigned cpus;	       /* of a boot */
	uint64_t memory_bytes; /* of a boot */
	int kernel_fd;	       /* of a boot; borrowed */
	int initrd_fd;	       /* of a boot, -1: none; borrowed */
	const char *cmdline;   /* of a boot */
	int snapshot_dirfd;  /* -1: boot; else the directory with `state` and `memory`; borrowed */
	int dirfd;	     /* for the console log, -1: none; borrowed */
	const char *console; /* its file name */
	bool rng;	     /* of a boot: give the guest a virtio-rng */
	int vsock_listen_fd; /* Unix stream socket for the host side of virtio-vsock, -1: no vsock
			      * (a restored VM has one if its snapshot has); taken over */
	struct vm_disk disks[VM_DISKS_MAX];
	unsigned disk_count;
};

enum vm_end {
	VM_RUNNING,
	VM_END_POWER_OFF, /* the guest powered off or asked for a reset */
	VM_END_RESET,
	VM_END_CRASH, /* triple fault */
	VM_END_ERROR, /* KVM could not go on */
};

/* Both leave no trace on failure and take the descriptors over in any case. */
int vm_create(const struct vm_options *o, struct vm **ret, struct error *e);
void vm_free(struct vm *vm); /* stops the threads; NULL is fine */

void vm_resume(struct vm *vm);
void vm_pause(struct vm *vm);

/* Writes a paused VM into a directory: `state`, `memory`, and for each writable disk `disk0`,
 * `disk1`: one delta over the disk's base. The files are on disk when it returns. On failure the VM
 * is as before and the directory holds an incomplete snapshot without `state`, which comes last. */
int vm_save(struct vm *vm, int dirfd, struct error *e);

/* Of a VM that was restored from the snapshot in this directory, and is paused: adds which pages it
 * has written meanwhile, so that later restores are faster (hot.h). */
int vm_save_hot(struct vm *vm, int dirfd, struct error *e);

/* Readable once the guest has ended. */
int vm_event_fd(const struct vm *vm);
enum vm_end vm_ended(const struct vm *vm, char *why, size_t why_bytes);

int vm_vsock_fd(const struct vm *vm); /* -1: no vsock */
void vm_vsock_poll(struct vm *vm);
bool vm_vsock_idle(struct vm *vm);

/* Enlarges a disk of a running VM; the guest is told. */
int vm_grow_disk(struct vm *vm, unsigned disk, uint64_t bytes, struct error *e);

struct vm_stats {
	uint64_t exits;		/* returns of KVM_RUN that user space handled */
	uint64_t first_exit_ns; /* CLOCK_MONOTONIC of the first of them, 0: none yet */
	uint64_t memory_bytes;
	unsigned cpus;
};
void vm_get_stats(const struct vm *vm, struct vm_stats *s);

/* The word of a guest that powered off through the sleep control register, 0 otherwise: bare test
 * guests report through it. */
uint8_t vm_power_off_value(const struct vm *vm);

#endif
