/* How much a build may take of the host's disk. It may take bytes_max in all, and must leave
 * reserve_bytes free. A step is counted when it has ended; until then the size of the guest's disk
 * bounds what it writes. */
#ifndef BUILD_DISK_BUDGET_H
#define BUILD_DISK_BUDGET_H

#include <stdint.h>

#include "base/error.h"

struct disk_budget {
	int fd; /* any file of the file system; borrowed */
	uint64_t bytes_max, reserve_bytes;
	uint64_t taken;
};

/* Counts bytes that were written or are about to be. Fails with ERROR_LIMIT if they are too
 * many. */
int disk_budget_take(struct disk_budget *d, uint64_t bytes, struct error *e);

/* Says how much of `bytes` can still be taken. Fails with ERROR_LIMIT or ERROR_NO_SPACE if nothing
 * can. */
int disk_budget_left(const struct disk_budget *d, uint64_t bytes, uint64_t *ret, struct error *e);

/* Checks that the file system has room for `coming` bytes besides the reserve. Fails with
 * ERROR_NO_SPACE. */
int disk_budget_room(const struct disk_budget *d, uint64_t coming, struct error *e);

#endif
