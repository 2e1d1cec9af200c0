/* The files that a guest's memory is mapped from. They are kept open to tell, when a guest ends
 * without a reason of its own, whether someone has truncated one: its pages beyond the new end are
 * gone then, the guest's own copies of them too. KVM does not say so in every case. A page of the
 * guest's page tables or descriptor tables that KVM itself cannot read becomes a triple fault. */
#ifndef VMM_BACKING_H
#define VMM_BACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/layers.h"

enum { BACKING_FILES_MAX = 2 + SNAPSHOT_LAYERS_MAX }; /* base, hot pages, layers */

/* Zeroed: no file. */
struct backing {
	struct {
		int fd; /* owned */
		int64_t bytes;
	} files[BACKING_FILES_MAX];
	unsigned count;
};

/* Appends a file, with the size it has now. Takes fd over, or duplicates it. Return 0, or -errno;
 * -E2BIG: BACKING_FILES_MAX are there. */
int backing_take(struct backing *b, int fd);
int backing_add(struct backing *b, int fd);

/* Forgets the last n files. */
void backing_drop(struct backing *b, unsigned n);

/* False if a file is shorter than it was. */
bool backing_is_whole(const struct backing *b);

#endif
