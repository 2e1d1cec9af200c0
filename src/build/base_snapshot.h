/* A snapshot of a sandbox as the base of a build. Its disk counts, not what its memory has. But
 * what programs wrote may still be in the guest's memory only. So the guest runs once more, without
 * a network, until it has written that. */
#ifndef BUILD_BASE_SNAPSHOT_H
#define BUILD_BASE_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "build/disk_budget.h"
#include "image/home.h"
#include "image/progress.h"
#include "image/template.h"

struct base_snapshot {
	const char *id; /* its directory's name in HOME_SNAPSHOTS; borrowed */
	bool memory;	/* false: only disks, which are written already */
	unsigned cpus;
	uint64_t memory_bytes, disk_bytes; /* of its sandbox */
};

/* Reads the settings of the template that it stands on, but with the size of the snapshot's disk.
 * ERROR_NOT_FOUND if its files are gone; ERROR_BAD_IMAGE if nothing can be built on its disk. */
int base_snapshot_load(const struct home *home, const struct base_snapshot *s, struct template *ret,
	struct error *e);

/* Makes its disk (layers.h) in an empty directory. work_fd, name: where it keeps the disk
 * meanwhile. A disk that is larger than its image has a copy of that image, of its own size, as the
 * lowest file: a disk has the size of that one. The copy counts against the budget (NULL: none).
 * Blocks while the guest runs. */
int base_snapshot_disk(const struct home *home, const struct base_snapshot *s, int work_fd,
	const char *name, int to_fd, struct disk_budget *budget, const struct progress *p,
	struct error *e);

#endif
