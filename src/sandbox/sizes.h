/* Snapshots of templates for other sizes than the templates' own.
 *
 * They are made when somebody asks for such sizes (prepare.h), and nothing stands on them for good:
 * what was made of one has links to its files. So no more than SIZES_MAX of them stay, within
 * SIZES_PERCENT of the file system, of all templates together; those that were used the longest ago go
 * first. The time of the last use is the directory's time of modification. */
#ifndef SANDBOX_SIZES_H
#define SANDBOX_SIZES_H

#include <stdint.h>

#include "image/home.h"

enum { SIZES_MAX = 16, SIZES_PERCENT = 10 };

/* The open directory of a snapshot is used now. */
void sizes_used(int snapshot_fd);

/* Removes what is too much; bytes_max 0: SIZES_PERCENT. The one that was used last stays in any case.
 * What cannot be removed is left to the next call. Blocks. */
void sizes_evict(const struct home *h, uint64_t bytes_max);

#endif
