/* How much memory, CPU and disk this host has promised to sandboxes, and how much it may promise.
 *
 * A reservation is taken when a creation begins, before anything is made. It is released when
 * nothing of the sandbox is left. A new daemon counts the sandboxes that it finds again. Everything
 * runs on the loop's thread, so concurrent creations cannot take the same place.
 *
 *	memory  not overcommitted: a guest may write all that it was promised, and if the host
 *	        cannot back that, somebody is killed. Limit: 90 % of the host's, or the option.
 *	        Besides its own memory, a microVM takes QUOTA_VM_BYTES and page tables (its
 *	        process's and the second level's: 1/512 each). The worker of its network counts
 *	        while it runs (network/egress.c), even if that exceeds the limit: creations wait.
 *	CPUs	    overcommitted 32 times: too few only slow everybody down, and most sandboxes
 *	        wait most of the time.
 *	disk    overcommitted 4 times the file system's size: disks are sparse and share their
 *	        template. If the host's disk is full, the guest gets an I/O error.
 *
 * What is actually free counts as well: MemAvailable here, free disk space when a sandbox is
 * made. */
#ifndef FLEET_QUOTA_H
#define FLEET_QUOTA_H

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
	uint64_t memory_bytes; /* 0: the default; the same for the next two */
	uint64_t cpu_overcommit, disk_overcommit;
};

struct quota {
	uint64_t memory_max_bytes, cpus_max, disk_overcommit;
	uint64_t memory_bytes, cpus, disk_bytes; /* promised */
};

/* Sets the maxima from the options and this host's memory and CPUs. Nothing is promised yet. */
void quota_init(struct quota *q, const struct quota_options *o);

/* Takes places for `count` sandboxes of these sizes, all or none; ERROR_NO_SPACE if they do not
 * fit. dirs: where the disks will be. Release the places one by one. */
int quota_reserve(struct quota *q, const struct sandbox_dirs *dirs, const struct sandbox_sizes *s,
	unsigned count, struct error *e);
/* Whether one sandbox of these sizes fits into this host when nothing is promised. ERROR_NO_SPACE
 * says what there is too little of. */
int quota_check_ever(const struct quota *q, const struct sandbox_dirs *dirs,
	const struct sandbox_sizes *s, struct error *e);
/* Counts a sandbox that exists already. */
void quota_take(struct quota *q, const struct sandbox_sizes *s);
void quota_release(struct quota *q, const struct sandbox_sizes *s);

#endif
