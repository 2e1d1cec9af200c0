/* One microVM: memory, vCPUs, devices, and the threads that run them.
 *
 * A VM is booted from a kernel or restored from a snapshot. Either way it begins paused. vm_resume
 * lets it run; vm_pause stops every vCPU between two instructions. A request to a device is then
 * complete or still in its queue. Each vCPU has a thread, which also handles this vCPU's accesses
 * to devices. The owner's event loop watches vm_event_fd (the guest ended) and vm_vsock_fd (host
 * sockets).
 *
 * The calls below belong to the owner's thread unless they say otherwise. Set-up is ordered for
 * speed: memory is registered before the interrupt controller exists, and no ioeventfd or irqfd is
 * created. Each would cost a grace period in the kernel. */
#ifndef VMM_VM_H
#define VMM_VM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "proto/snapshot.h"
#include "vmm/snapshot_files.h"

struct vm;

struct vm_disk {
	int base_fd;			    /* taken over */
	int lower_fds[SNAPSHOT_LAYERS_MAX]; /* read-only deltas, lowest first; taken over */
	unsigned lower_count;
	unsigned image_deltas; /* how many of these, the lowest, are the image's: see vm_save */
	int delta_fd;	       /* writable top delta, -1: read-only disk; taken over */
	uint64_t bytes;	       /* capacity; 0: that of the layers below */
};

struct vm_options {
	unsigned cpus;	       /* boot only */
	uint64_t memory_bytes; /* boot only */
	int kernel_fd;	       /* boot only; borrowed */
	int initrd_fd;	       /* boot only, -1: none; borrowed */
	const char *cmdline;   /* boot only */
	const char *baseline;  /* boot only: facts (cpu_model.h) as text that limit the CPU; NULL:
			        * only the host limits it */
	uint64_t host_cpu;     /* restore only: hash of this host's facts. 0: not known, which costs
			        * up to 300 us */
	int state_fd;	       /* `state` of a snapshot for a restore, -1: boot; borrowed */
	int memory_fd;	       /* restore only: the full memory; borrowed */
	int layer_fds[SNAPSHOT_LAYERS_MAX]; /* restore only: layers, lowest first; borrowed */
	unsigned layer_count;
	bool check_layers;   /* read the layers whole to find damage, if not done before */
	int hot_fd;	     /* restore only: a hint (hot.h), -1: none; borrowed */
	bool rehearse;	     /* restore only: for vm_save_hot later; makes the VM slow */
	bool idle;	     /* set up at idle priority if the host allows; the VM runs at normal */
	int console_fd;	     /* for the boot log (serial.h), -1: none; taken over */
	int kvm_fd;	     /* of kvm_open(); taken over */
	int pagemap_fd;	     /* of pages_open(); taken over */
	bool rng;	     /* boot only: give the guest a virtio-rng */
	int vsock_listen_fd; /* Unix stream socket for the host side of virtio-vsock, -1: no vsock
			      * (a restored VM has one if its snapshot has); taken over */
	struct vm_disk disks[SNAPSHOT_DISKS_MAX];
	unsigned disk_count;
};

/* The reason for the end of a VM when the host cannot supply a page of a file that its memory is
 * mapped from. On a tmpfs even reading a hole allocates a page. */
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

/* Leaves nothing behind on failure. Descriptors to be taken over are taken in any case. */
int vm_create(const struct vm_options *o, struct vm **ret, struct error *e);
void vm_free(struct vm *vm); /* stops the threads; NULL is fine */

void vm_resume(struct vm *vm);
/* -ETIMEDOUT: the VM goes on, because a vCPU waits for the host's disk. */
int vm_pause(struct vm *vm, struct error *e);
/* The same, and the guest's clock stands still until vm_resume: its timers do not see the time
 * between. */
int vm_freeze(struct vm *vm, struct error *e);

/* Writes a paused VM as a snapshot that needs only the disks' images: the state, the memory, and
 * one delta for each writable disk, over its base and the deltas of its image. The files must be
 * empty and are borrowed. They are durable when the call returns. On failure the VM is as before.
 * The state, which comes last, is then empty or damaged. */
int vm_save(struct vm *vm, const struct snapshot_files *files, struct error *e);

struct vm_snapshot_options {
	/* The files that vm_snapshot_needs names, empty. Unless final, also the new top delta of
	 * each writable disk. Taken over in any case. */
	struct snapshot_files files;
	bool final; /* the VM stays paused, as its process ends next */
	/* The calling thread calls these right before it stops a running guest, which waits for the
	 * return, and when the guest runs again. May be NULL. */
	void (*before_stop)(void *arg);
	void (*after_stop)(void *arg);
	void *arg;
};

struct vm_snapshot_result {
	bool memory_full;		      /* `memory` holds all of it: there is nothing below */
	bool memory_merged;		      /* `memory.merged` replaces all layers below */
	bool disk_merged[SNAPSHOT_DISKS_MAX]; /* `disk0.merged` replaces all deltas below the top */
	uint64_t stop_ns; /* from the first kick until the guest ran again or was at rest */
	uint64_t pages;	  /* written to the layer */
};

/* Takes a snapshot of a VM, running or paused. The cost follows what was written since the snapshot
 * that the VM stands on. Writes
 *	memory.layer	the pages written since then (layers.h), or
 *	memory		all of the memory, if the VM was booted
 *	memory.merged	the layers below as one, if there would be more than SNAPSHOT_LAYERS_MAX,
 *			or more pieces of them than can be mapped
 *	disk0.merged	the same for a disk's deltas, if there would be more than
 *			SNAPSHOT_LAYERS_MAX
 *	state		last: without an intact state it is no snapshot
 * It also freezes the disks' deltas. These files are the caller's, who links them to the others
 * beforehand. Everything is durable when the call returns.
 *
 * The guest stands still only while its pages and state are copied. Merging, checksums and waiting
 * for the host's disk happen while it runs. After a live snapshot the VM stands on it, so it is the
 * parent of the next one. This module has no call to roll back: another VM is restored from the
 * snapshot and takes the sandbox's place.
 *
 * On failure the VM is as before, running or not, with its pages all its own. The files are useless
 * and the state is not intact. If the failure came after the guest went on (most likely the host's
 * disk failed), the fresh deltas stay on top of the frozen ones; vm_stats.disk_tops shows it.
 *
 * Any thread may call this, one at a time. */
int vm_snapshot(struct vm *vm, const struct vm_snapshot_options *o, struct vm_snapshot_result *ret,
	struct error *e);
struct snapshot_needs vm_snapshot_needs(struct vm *vm);

/* Writes what the guest has flushed to the host's disk. For a paused VM whose memory will be
 * discarded. */
int vm_flush_disks(struct vm *vm, struct error *e);

/* Freezes the first disk and puts a fresh delta on top (disk_freeze): an empty file, taken over
 * also on failure. The frozen one is durable at the return. The guest may run. Not during
 * vm_snapshot. */
int vm_freeze_disk(struct vm *vm, int delta_fd, struct error *e);

/* For a paused VM that was restored as a rehearsal from a snapshot with the memory memory_fd.
 * Writes the pages it has touched to fd, an empty file, so later restores are faster (hot.h). Both
 * are borrowed. */
int vm_save_hot(struct vm *vm, int memory_fd, int fd, struct error *e);

/* Readable once the guest has ended. */
int vm_event_fd(const struct vm *vm);
enum vm_end vm_ended(const struct vm *vm, char *why, size_t why_bytes);

int vm_vsock_fd(const struct vm *vm); /* -1: no vsock */
void vm_vsock_poll(struct vm *vm);
bool vm_vsock_idle(struct vm *vm);
/* Replaces the egress channel (vsock.h), taken over; -1: none. Any thread may call this. */
void vm_set_egress(struct vm *vm, int fd);

struct vm_stats {
	uint64_t exits;		/* returns of KVM_RUN that user space handled */
	uint64_t first_exit_ns; /* CLOCK_MONOTONIC of the first of them, 0: none yet */
	uint64_t memory_bytes;
	unsigned cpus;
	/* inodes of the files that the disks write to, 0: read-only */
	uint64_t disk_tops[SNAPSHOT_DISKS_MAX];
	unsigned memory_layers; /* layers that its memory stands on */
};
void vm_get_stats(const struct vm *vm, struct vm_stats *s);

/* The value that a guest powered off with through the sleep control register, else 0. It is there
 * for tests, whose bare guests report through it. */
uint8_t vm_power_off_value(const struct vm *vm);

#endif
