/* Starting a microVM's process (mayfly-vmm) and talking to it: the host side of a sandbox.
 *
 * A sandbox has a directory. In it, from vmm_launch on:
 *	vsock.sock	host side of virtio-vsock (vsock.h); connections made before the VM runs
 *wait control.sock	requests to the VMM (control.h), SOCK_SEQPACKET lock		flock'ed as
 *long as the mayfly-vmm process lives console.log	the guest's boot log, written by the VMM
 *	vmm.log		what mayfly-vmm wrote to standard error
 *
 * The process that launched is the owner; unless `keep` is set, the microVM ends when its owner
 * dies, however that happens, and mayfly-vmm then removes the directory. If mayfly-vmm dies
 * instead, the owner removes it. If both are killed at once, the directory stays behind without a
 * locked `lock`: whoever finds such a directory may remove it. */
#ifndef VMM_LAUNCH_H
#define VMM_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { VMM_DISKS_MAX = 2, VMM_LAYERS_MAX = 16 };

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

	/* Either restored from a snapshot's directory (with `state` and `memory`) ... */
	const char *snapshot;
	/* ... or booted. */
	const char *kernel, *initrd, *cmdline; /* initrd may be NULL */
	unsigned cpus;
	uint64_t memory_bytes;

	struct vmm_disk disks[VMM_DISKS_MAX];
	unsigned disk_count;

	bool paused; /* do not run until vmm_resume: a pre-created VM */
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

/* Requests to the VM; each waits for the answer, at most until the deadline. */
int vmm_pause(struct vmm *v, struct error *e);
int vmm_resume(struct vmm *v, struct error *e);
/* Of a paused VM: writes `state`, `memory` and the disks' deltas (`disk0`...) into a directory. */
int vmm_snapshot(struct vmm *v, int snapshot_dirfd, struct error *e);

/* Of a paused VM that was restored from that directory: adds `hot`, the pages it has written since.
 */
int vmm_save_hot(struct vmm *v, int snapshot_dirfd, struct error *e);

/* Ends the microVM and waits for its process (killed after a second if it does not go by itself);
 * the directory is left to the caller. Frees v. NULL is fine. */
void vmm_stop(struct vmm *v);

/* Lets go of a kept VM without ending it. */
void vmm_release(struct vmm *v);

/* One request to any running microVM through its control.sock: "status", "quit", ... as control.h
 * says. reply (may be NULL) gets the text behind "ok". ERROR_NOT_FOUND when nothing is running
 * there. */
int vmm_request(int dirfd, const char *request, char *reply, size_t reply_bytes, struct error *e);

/* Whether a live mayfly-vmm (or its owner) holds the directory: 1, 0 or -errno. */
int vmm_dir_is_live(int dirfd);

#endif
