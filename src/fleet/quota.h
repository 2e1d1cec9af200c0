/* What this host has promised to sandboxes, and how much it may: memory, CPUs, disk.
 *
 * A reservation is taken when a creation begins, before anything is made, and released when nothing
 * of the sandbox is left; sandboxes that a new daemon finds are counted again. All on the loop's
 * thread, so that creations at the same time cannot take the same place.
 *
 *	memory  not overcommitted: a guest may write all that it was promised, and what the host
 *	        cannot back then costs somebody's life. Limit: 90 % of the host's, or as given.
 *	        Besides its own, a microVM takes QUOTA_VM_BYTES and page tables (its process' and
 *	        the second level's: 1/512 each).
 *	CPUs    overcommitted 32 times: too few only make everybody slower, and most wait most of
 *	        the time.
 *	disk    overcommitted 4 times over the file system's size: disks are sparse and shared with
 *	        their template, and a full host's disk is an I/O error in the guest.
 *
 * What is actually free counts as well: MemAvailable here, free disk space when it is made. */
#ifndef DAEMON_QUOTA_H
#define DAEMON_QUOTA_H

#include <stdint.h>

#include "base/error.h"
#include "sandbox/sandbox.h"

enum {
	QUOTA_MEMORY_PERCENT = 90,
	QUOTA_CPU_OVERCOMMIT = 32,
	QUOTA_DISK_OVERCOMMIT = 4,
	QUOTA_VM_BYTES = 4 << 20,
};

struct quota_options {
	uint64_t memory_bytes; /* 0: the default, as the next two */
	uint64_t cpu_overcommit, disk_overcommit;
};

struct quota {
	uint64_t memory_max_bytes, cpus_max, disk_overcommit;
	uint64_t memory_bytes, cpus, disk_bytes; /* promised */
};

void quota_init(struct quota *q, const struct quota_options *o);

/* Places for `count` sandboxes of these sizes, all or none: ERROR_NO_SPACE when they do not fit.
 * dirs: where the disks will be. They are released one by one. */
int quota_reserve(struct quota *q, const struct sandbox_dirs *dirs, const struct sandbox_sizes *s,
	unsigned count, struct error *e);
/* For what is there already. */
void quota_take(struct quota *q, const struct sandbox_sizes *s);
void quota_release(struct quota *q, const struct sandbox_sizes *s);

#endif
