/* Starts a microVM's process (mayfly-vmm) and talks to it: the host side of a sandbox.
 *
 * A sandbox has a directory. From vmm_launch on it contains:
 *	vsock.sock	host side of virtio-vsock (vsock.h); connections made before the VM runs
 *			wait
 *	control.sock	requests to the VMM (control.h), SOCK_SEQPACKET
 *	lock		flock'ed while the mayfly-vmm process lives
 *	console.log	the guest's boot log, written by the VMM
 *	vmm.log		what mayfly-vmm wrote to standard error
 *
 * The process that launched a microVM is its owner. When the owner dies, however that happens, the
 * microVM ends unless `keep` is set. The owner removes the directory; mayfly-vmm has no descriptor
 * of it. A directory that nobody removed stays behind with `lock` unlocked, and whoever finds it
 * may remove it.
 *
 * A guest may have taken over mayfly-vmm. So mayfly-vmm runs in a jail (jail/launcher.h), and gets
 * an empty environment (except for its log's level) and only the descriptors of its own files. What
 * it wrote is opened with file_open_foreign. */
#ifndef SANDBOX_LAUNCH_H
#define SANDBOX_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "jail/kind.h"
#include "proto/snapshot.h"

/* Maximum bytes of a file that a microVM writes, or that one stands on. The largest is a disk's
 * delta of 64 GiB with its head. */
#define VMM_FILE_MAX (UINT64_C(65) << 30)

struct vmm_disk {
	const char *base;			 /* read-only image */
	const char *layers[SNAPSHOT_LAYERS_MAX]; /* frozen deltas, lowest first */
	unsigned layer_count;
	unsigned image_deltas; /* how many of these, the lowest, vmm_save leaves out */
	const char *delta;     /* writable delta, created when missing; relative to the sandbox's
			    * directory or absolute; NULL: read-only disk */
	uint64_t bytes;	       /* capacity; 0: that of the layers */
};

struct vmm_launch {
	const char *dir; /* the sandbox's directory; must exist */
	int cgroup_fd;	 /* its control group (cgroup.h), borrowed; 0 or less: none */

	int egress_fd; /* the VMM's end of its egress channel (docs/egress-protocol.md), borrowed;
			  * 0 or less: no network */

	/* Either restored from a snapshot's directory. `memory` in there is its memory, unless it
	 * stands on others: then `memory` names the full one and `layers` those on top, lowest
	 * first, the snapshot's own last. Paths are relative to the directory or absolute. */
	const char *snapshot;
	const char *memory, *layers[SNAPSHOT_LAYERS_MAX];
	unsigned layer_count;
	bool check_layers; /* read the layers whole and compare checksums: once after they are made,
			    * and when their files have changed */
	const char *hot;   /* hint (hot.h); NULL: `hot` in the snapshot's directory, if it exists */
	bool rehearse;	   /* to find its hot pages (vmm_save_hot); the VM is slow */
	/* ... or booted. */
	const char *kernel, *initrd, *cmdline; /* initrd may be NULL */
	/* Facts (vmm/cpu_model.h) that limit the CPU. NULL: only this host limits it. */
	const char *cpu_baseline;
	unsigned cpus;
	uint64_t memory_bytes;

	struct vmm_disk disks[SNAPSHOT_DISKS_MAX];
	unsigned disk_count;

	bool paused; /* do not run until vmm_resume, for a VM made in advance; its hot pages are
		      * copied. Its wait does not show in the guest's monotonic clock */
	bool keep;   /* outlive the owner */
};

struct vmm;

/* Returns as soon as the process has started: the sockets exist, the VM does not yet. If making the
 * VM fails, the first event says so. */
int vmm_launch(const struct vmm_launch *l, struct vmm **ret, struct error *e);

enum vmm_event {
	VMM_NOTHING, /* no event (yet) */
	VMM_STARTED, /* the VM exists and runs, unless `paused` is set */
	VMM_ENDED,   /* the guest powered off, reset or crashed, the VM could not be made, or
		      * mayfly-vmm died; the error says which */
};

/* Readable when vmm_next_event has an event. */
int vmm_fd(const struct vmm *v);
pid_t vmm_pid(const struct vmm *v);
enum jail_kind vmm_jail(const struct vmm *v);

/* Never blocks. After VMM_ENDED, e has the reason (ERROR_SANDBOX, or why the VM could not be made),
 * and no more events come. */
enum vmm_event vmm_next_event(struct vmm *v, struct error *e);
/* Takes all pending events. Returns true if VMM_ENDED was one of them, with its error in e. */
bool vmm_is_over(struct vmm *v, struct error *e);

/* Waits for VMM_STARTED, at most ms milliseconds. */
int vmm_await_started(struct vmm *v, unsigned ms, struct error *e);

/* Requests to the VM. Each waits for the answer, at most until its deadline. */
int vmm_pause(struct vmm *v, struct error *e);
int vmm_resume(struct vmm *v, struct error *e);
int vmm_keep(struct vmm *v, struct error *e); /* sets `keep` of vmm_launch from now on */
/* Writes `state`, `memory` and the disks' deltas (`disk0`...) of a paused VM into a directory: a
 * snapshot that needs only the disks' images, with their deltas (image_deltas). */
int vmm_save(struct vmm *v, int snapshot_dirfd, struct error *e);

/* For a paused VM that was restored from that directory with `rehearse`. Adds `hot`, the pages that
 * it has touched since. */
int vmm_save_hot(struct vmm *v, int snapshot_dirfd, struct error *e);

/* Ends the microVM and waits for its process, which is killed if it lives on after a second. The
 * directory is left to the caller. Frees v. NULL is fine. */
void vmm_stop(struct vmm *v);

/* Frees v without ending a kept VM. */
void vmm_release(struct vmm *v);

/* Tells whether a live mayfly-vmm (or its owner) holds the directory: 1, 0 or -errno. */
int vmm_dir_is_live(int dirfd);

#endif
