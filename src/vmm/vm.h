/* One microVM: memory, vCPUs, devices, and the threads that run them.
 *
 * A VM is booted from a kernel or restored from a snapshot; either way it begins paused. vm_resume
 * lets it run, vm_pause stops every vCPU between two instructions; a request to a device is complete
 * then, or still in its queue. Each vCPU has a thread; accesses to devices are handled in the thread
 * of the vCPU that makes them. The
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
#include "vmm/snapshot_files.h"

struct vm;

enum { VM_DISKS_MAX = 2, VM_DISK_LAYERS_MAX = 16, VM_MEMORY_LAYERS_MAX = 16 };

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
	const char *baseline;  /* of a boot: facts (cpu_model.h) as text that limit the CPU; NULL:
				* the host alone does */
	uint64_t host_cpu;     /* of a restore: hash of this host's facts, 0: not known, which takes
				* up to 300 us more */
	int state_fd;	       /* -1: boot; else the `state` of a snapshot, and: borrowed */
	int memory_fd;	       /* the full memory that it stands on; borrowed */
	int layer_fds[VM_MEMORY_LAYERS_MAX]; /* what was written since, lowest first; borrowed */
	unsigned layer_count;
	bool check_layers; /* read the layers whole to find damage: where they were not yet */
	int hot_fd;	   /* hint for a restore (hot.h), -1: none; borrowed */
	bool rehearse;	   /* of a restore: vm_save_hot will be called; it is slow to run */
	bool idle;	   /* make it at idle priority, where the host allows; it runs at normal */
	int console_fd;	   /* for the boot log (serial.h), -1: none; taken over */
	int kvm_fd;	   /* of kvm_open(); taken over */
	int pagemap_fd;	   /* of pages_open(); taken over */
	bool rng;	   /* of a boot: give the guest a virtio-rng */
	int vsock_listen_fd; /* Unix stream socket for the host side of virtio-vsock, -1: no vsock
			      * (a restored VM has one if its snapshot has); taken over */
	struct vm_disk disks[VM_DISKS_MAX];
	unsigned disk_count;
};

/* Why a VM ends when a page of a file that it stands on cannot be had. A tmpfs allocates a page for
 * a hole that is read, too. */
#define VM_NO_PAGE                                                                                 \
	"a page of the files that the sandbox stands on cannot be read: their file system is "     \
	"full (tmpfs), or a file was truncated"

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
/* -ETIMEDOUT: it goes on, as the host's disk keeps a vCPU waiting. */
int vm_pause(struct vm *vm, struct error *e);

/* Writes a paused VM as a snapshot that stands on nothing but the disks' base images: the state, the
 * memory, and for each writable disk one delta over its base. The files are empty before, and on
 * the host's disk when it returns; borrowed. On failure the VM is as before and the state, which
 * comes last, is empty or damaged. */
int vm_save(struct vm *vm, const struct snapshot_files *files, struct error *e);

struct vm_snapshot_options {
	/* What vm_snapshot_needs says, empty. Unless final, also for each writable disk its new top
	 * delta. Taken over in any case. */
	struct snapshot_files files;
	bool final; /* the VM stays paused: its process ends next */
	/* Called right before a running guest is stopped, which waits for its return, and when it
	 * runs again; by the calling thread. NULL: nothing is. */
	void (*before_stop)(void *arg);
	void (*after_stop)(void *arg);
	void *arg;
};

struct vm_snapshot_result {
	bool memory_full;		/* `memory` holds all of it: there is nothing below */
	bool memory_merged;		/* `memory.merged` takes the place of all layers below */
	bool disk_merged[VM_DISKS_MAX]; /* `disk0.merged` that of all deltas below the top */
	uint64_t stop_ns; /* from the first kick until the guest ran again, or was at rest */
	uint64_t pages;	  /* written to the layer */
};

/* Snapshot of a VM, running or paused, that costs what was written since the one it stands on.
 * Writes
 *	memory.layer	the pages written since then (layers.h), or
 *	memory		all of it, of a VM that was booted
 *	memory.merged	the layers below as one, when there would be more than VM_MEMORY_LAYERS_MAX,
 *			or more pieces of them than can be mapped
 *	disk0.merged	the same of a disk's deltas, when there would be more than
 *			VM_DISK_LAYERS_MAX
 *	state		comes last: until it is intact, it is no snapshot
 * and freezes the disks' deltas, files of the caller's, who links them to the others beforehand.
 * Everything is on disk when it returns.
 *
 * The guest stands still only while its pages and state are copied; merging, checksums and waiting
 * for the host's disk happen while it runs. A live one goes on on top of what was written: its next
 * snapshot's parent is this one. To roll back is no call of this module: another VM is restored
 * from the snapshot and takes the sandbox's place.
 *
 * On failure the VM is as before, running or not, its pages all its own; the files are of no use,
 * and the state is not intact. If it failed after the guest went on (the host's disk did, most likely), the fresh deltas
 * stay on top of the frozen ones: vm_stats.disk_tops says so.
 *
 * May be called from another thread than the owner's, one at a time. */
int vm_snapshot(struct vm *vm, const struct vm_snapshot_options *o, struct vm_snapshot_result *ret,
	struct error *e);
struct snapshot_needs vm_snapshot_needs(struct vm *vm);

/* What the guest flushed and the host did not write yet: of a paused VM whose memory is given up.
 */
int vm_flush_disks(struct vm *vm, struct error *e);

/* Of a paused VM that was restored, to rehearse, from a snapshot whose memory memory_fd is: writes to
 * fd, an empty file, which pages it has touched meanwhile, so that later restores are faster (hot.h).
 * Both are borrowed. */
int vm_save_hot(struct vm *vm, int memory_fd, int fd, struct error *e);

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
	/* inodes of the files that the disks' writes go to, 0: read-only */
	uint64_t disk_tops[VM_DISKS_MAX];
	unsigned memory_layers; /* that its memory stands on */
};
void vm_get_stats(const struct vm *vm, struct vm_stats *s);

/* The word of a guest that powered off through the sleep control register, 0 otherwise: bare test
 * guests report through it. */
uint8_t vm_power_off_value(const struct vm *vm);

#endif
