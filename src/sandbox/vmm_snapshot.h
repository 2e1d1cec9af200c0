/* Snapshots of running microVMs, by the sandbox's directory. */
#ifndef SANDBOX_VMM_SNAPSHOT_H
#define SANDBOX_VMM_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "proto/snapshot.h"

struct vmm_snapshot_options {
	int dirfd; /* of the snapshot, empty, on the sandbox's file system; borrowed */
	bool final;
	struct {
		/* Names of files in the sandbox's directory: the writable delta (NULL: none), and
		 * the new one, which is created. A final snapshot makes no new one. */
		const char *delta, *next;
	} disks[SNAPSHOT_DISKS_MAX];
	/* Called when a running guest is about to be stopped, which waits up to two seconds for the
	 * return, and when it runs again. May be NULL. A microVM that an older Mayfly started calls
	 * neither. */
	void (*before_stop)(void *arg);
	void (*after_stop)(void *arg);
	void *arg;
};

struct vmm_snapshot_result {
	bool memory_full, memory_merged, disk_merged[SNAPSHOT_DISKS_MAX];
	uint64_t stop_ns, pages;
};

/* Takes a snapshot of the microVM of a sandbox's directory, running or paused. The cost follows
 * what was written since the snapshot that it stands on. Live: the microVM goes on, on top of what
 * was written. Final: it is paused afterwards, and "quit" ends it.
 *
 * The snapshot's directory gets these files. All are durable at the return. `state` comes last, and
 * is damaged until then:
 *	memory.layer	pages written since the last snapshot; `memory` instead (memory_full:
 *			all pages) if there was none
 *	memory.merged	replaces all of those layers, above the base (memory_merged)
 *	disk0		a link to the frozen delta, on top of those that the disk stands on
 *	disk0.merged	replaces all of those deltas, above the image (disk_merged)
 *
 * After success the microVM stands on the same stacks as the snapshot. A child of either is
 * restored from them: vmm_launch with the lists of both and a fresh delta of its own. Rolling back
 * is a launch like any other, in place of the process that ran. The caller may remove the old name
 * of the frozen delta in the sandbox's directory.
 *
 * On failure the microVM is as before, running if it was; the caller removes the directory. Its
 * disks may still have switched to the new deltas on top of the old ones, as after success.
 * *ret_switched (may be NULL) tells. If they have not, the new deltas' files are removed.
 * -ETIMEDOUT: the snapshot is still in progress; vmm_writes_to() later tells the outcome. Blocks.
 * One at a time, else ERROR_LIMIT. */
int vmm_snapshot(int dirfd, const struct vmm_snapshot_options *o, struct vmm_snapshot_result *ret,
	bool *ret_switched, struct error *e);

/* Tells whether the disk writes to this file of the sandbox's directory: 1, 0 or -errno. */
int vmm_writes_to(int dirfd, unsigned disk, const char *delta, struct error *e);

#endif
