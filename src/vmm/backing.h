/* The files that a guest's memory is mapped from. They stay open so that, after an unexplained end
 * of a guest, the VMM can tell whether someone truncated one. Pages beyond a file's new end are
 * gone, even those that the guest had written. KVM does not always report this: if it cannot read a
 * page of the guest's page tables or descriptor tables, the guest ends with a triple fault. */
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

/* Append a file with its present size. backing_take takes fd over; backing_add duplicates it.
 * Return 0 or -errno; -E2BIG: there are BACKING_FILES_MAX already. */
int backing_take(struct backing *b, int fd);
int backing_add(struct backing *b, int fd);

/* Forgets the last n files. */
void backing_drop(struct backing *b, unsigned n);

/* False if a file is shorter than it was. */
bool backing_is_whole(const struct backing *b);

#endif
