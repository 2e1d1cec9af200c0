/* Starting a microVM's process (mayfly-vmm) and talking to it: the host side of a sandbox.
 *
 * A sandbox has a directory. In it, from vmm_launch on:
 *	vsock.sock	host side of virtio-vsock (vsock.h); connections made before the VM runs
 *			wait
 *	control.sock	requests to the VMM (control.h), SOCK_SEQPACKET
 *	lock		flock'ed as long as the mayfly-vmm process lives
 *	console.log	the guest's boot log, written by the VMM
 *	vmm.log		what mayfly-vmm wrote to standard error
 *
 * The process that launched is the owner; unless `keep` is set, the microVM ends when its owner
 * dies, however that happens. The directory is the owner's to remove: mayfly-vmm has no descriptor
 * of it. One that nobody removed stays behind without a locked `lock`: whoever finds such a directory
 * may remove it.
 *
 * mayfly-vmm may be in the hands of its guest. It gets an empty environment (but for its log's
 * level) and the descriptors of its own files, no others; what it wrote is opened as
 * file_open_foreign says. */
#ifndef VMM_LAUNCH_H
#define VMM_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { VMM_DISKS_MAX = 2, VMM_LAYERS_MAX = 16 };

/* Bytes of the largest file that a microVM writes, a disk's delta of 64 GiB with its head, and of any
 * file that one stands on. */
#define VMM_FILE_MAX (UINT64_C(65) << 30)

struct vmm_disk {
	const char *base;		    /* read-only image */
	const char *layers[VMM_LAYERS_MAX]; /* frozen deltas, lowest first */
	unsigned layer_count;
	const char *delta; /* writable delta, created when missing; relative to the sandbox's
			    * directory or absolute; NULL: read-only disk */
	uint64_t bytes;	   /* capacity, 0: that of the layers */
};

struct vmm_launch {
	const char *dir; /* the sandbox's directory, which exists */

	/* Either restored from a snapshot's directory. Its own memory is `memory` in there, unless
	 * it stands on others: then the full memory at the bottom and the layers on it, lowest
	 * first, its own last. Paths are relative to the directory or absolute. */
	const char *snapshot;
	const char *memory, *layers[VMM_LAYERS_MAX];
	unsigned layer_count;
	bool check_layers; /* read the layers whole and compare checksums: once after they are made,
			    * and when their files have changed */
	const char *hot; /* hint (hot.h): NULL: `hot` in the snapshot's directory, if it is there */
	bool rehearse;	 /* to find its hot pages (vmm_save_hot); it is slow to run */
	/* ... or booted. */
	const char *kernel, *initrd, *cmdline; /* initrd may be NULL */
	const char *
		cpu_baseline; /* facts (vmm/cpu_model.h) that limit the CPU; NULL: the host alone */
	unsigned cpus;
	uint64_t memory_bytes;

	struct vmm_disk disks[VMM_DISKS_MAX];
	unsigned disk_count;

	bool paused; /* do not run until vmm_resume: a pre-created VM, its hot pages copied. How
		      * long it waits does not show in the guest's monotonic clock */
	bool keep;   /* outlive the owner */
};

struct vmm;

/* Returns as soon as the process is started: the sockets exist, the VM does not yet. A failure to
 * make it comes as the first event. */
int vmm_launch(const struct vmm_launch *l, struct vmm **ret, struct error *e);

enum vmm_event {
	VMM_NOTHING, /* no event (yet) */
	VMM_STARTED, /* the VM is made; running unless paused was asked for */
	VMM_ENDED,   /* the guest powered off, reset, or crashed, or the VM could not be made, or
		      * mayfly-vmm died: the error says which */
};

/* Readable when vmm_next_event has something. */
int vmm_fd(const struct vmm *v);
pid_t vmm_pid(const struct vmm *v);

/* Never blocks. After VMM_ENDED, e holds what happened (ERROR_SANDBOX, or the reason why the VM
 * could not be made) and nothing more comes. */
enum vmm_event vmm_next_event(struct vmm *v, struct error *e);
/* Takes all events there are: true when VMM_ENDED was one of them, with its error in e. */
bool vmm_is_over(struct vmm *v, struct error *e);

/* Waits for VMM_STARTED, at most ms milliseconds. */
int vmm_await_started(struct vmm *v, unsigned ms, struct error *e);

/* Requests to the VM; each waits for the answer, at most until the deadline. */
int vmm_pause(struct vmm *v, struct error *e);
int vmm_resume(struct vmm *v, struct error *e);
int vmm_keep(struct vmm *v, struct error *e); /* as `keep` of vmm_launch, from now on */
/* Of a paused VM: writes `state`, `memory` and the disks' deltas (`disk0`...) into a directory: a
 * snapshot that stands on nothing but the disks' images. */
int vmm_save(struct vmm *v, int snapshot_dirfd, struct error *e);

/* Of a paused VM that was restored, to rehearse, from that directory: adds `hot`, the pages that it has
 * touched since. */
int vmm_save_hot(struct vmm *v, int snapshot_dirfd, struct error *e);

/* Ends the microVM and waits for its process (killed after a second if it does not go by itself);
 * the directory is left to the caller. Frees v. NULL is fine. */
void vmm_stop(struct vmm *v);

/* Lets go of a kept VM without ending it. */
void vmm_release(struct vmm *v);

/* One request to any running microVM through its control.sock: "status", "quit", ... as control.h
 * says. reply (may be NULL) gets the text behind "ok". ERROR_NOT_FOUND when nothing is running
 * there. */
int vmm_request(int dirfd, const char *text, char *reply, size_t reply_bytes, struct error *e);

struct vmm_snapshot_options {
	int dirfd; /* of the snapshot, empty, on the sandbox's file system; borrowed */
	bool final;
	struct {
		const char
			*delta;	  /* writable delta's file in the sandbox's directory, NULL: none */
		const char *next; /* unless final: that of the new one, which is created */
	} disks[VMM_DISKS_MAX];
	/* Called when a running guest is about to be stopped, which waits for its return for two
	 * seconds, and when it runs again. May be NULL; a microVM that was started by an older
	 * Mayfly calls neither. */
	void (*before_stop)(void *arg);
	void (*after_stop)(void *arg);
	void *arg;
};

struct vmm_snapshot_result {
	bool memory_full, memory_merged, disk_merged[VMM_DISKS_MAX];
	uint64_t stop_ns, pages;
};

/* Snapshot of a running or paused microVM, that of the sandbox's directory, which costs what was
 * written since the one it stands on. Live: it goes on, on top of what was written. Final: it is
 * paused afterwards, to be ended with "quit". The directory gets, all of it durable, `state` last,
 * which is damaged until then:
 *	memory.layer	to be put on the layers that the VM stands on; or, alone, `memory`
 *			(memory_full)
 *	memory.merged	takes the place of all of those layers, above the base (memory_merged)
 *	disk0		a link to the frozen delta, on top of those that the disk stands on
 *	disk0.merged	takes the place of all of those deltas, above the image (disk_merged)
 * After success the microVM stands on the same stacks as the snapshot, which is what a child of
 * either is restored from: vmm_launch with the lists of both and a fresh delta of its own. Rolling
 * back is a launch like any other, in place of the process that ran. The caller may remove the old
 * name of the frozen delta in the sandbox's directory.
 *
 * On failure the microVM is as before, running if it was; the caller removes the directory.
 * *ret_switched (may be NULL) says whether, all the same, its disks have the new deltas on top of
 * the old ones, as they do after success; if not, the new ones' files are removed. -ETIMEDOUT: it is
 * still at it; vmm_writes_to() tells later what came of it. Blocks; one at a time, else
 * ERROR_LIMIT. */
int vmm_snapshot(int dirfd, const struct vmm_snapshot_options *o, struct vmm_snapshot_result *ret,
	bool *ret_switched, struct error *e);

/* Whether the disk's writes go to this file of the sandbox's directory: 1, 0 or -errno. */
int vmm_writes_to(int dirfd, unsigned disk, const char *delta, struct error *e);

/* Whether a live mayfly-vmm (or its owner) holds the directory: 1, 0 or -errno. */
int vmm_dir_is_live(int dirfd);

#endif
