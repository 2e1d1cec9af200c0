/* What a build may take of the host's disk: so much in all, and nothing of what the operator keeps
 * free. What one step writes is counted when it has ended: the size of the guest's disk bounds it
 * until then. */
#ifndef BUILD_DISK_BUDGET_H
#define BUILD_DISK_BUDGET_H

#include <stdint.h>

#include "base/error.h"

struct disk_budget {
	int fd; /* a file of the file system; borrowed */
	uint64_t bytes_max, reserve_bytes;
	uint64_t taken;
};

/* Counts what was written or soon is. ERROR_LIMIT: it is too much. */
int disk_budget_take(struct disk_budget *d, uint64_t bytes, struct error *e);

/* How much of `bytes` can still be taken. ERROR_LIMIT, ERROR_NO_SPACE: nothing. */
int disk_budget_left(const struct disk_budget *d, uint64_t bytes, uint64_t *ret, struct error *e);

/* Whether the file system has room for so much, beside the reserve. ERROR_NO_SPACE. */
int disk_budget_room(const struct disk_budget *d, uint64_t coming, struct error *e);

#endif
