/* Limits the snapshots of templates for other sizes than the templates' own.
 *
 * They are made when somebody asks for such sizes (prepare.h). Nothing depends on them for good, as
 * what was made from one has links to its files. So at most SIZES_MAX of them stay, within
 * SIZES_PERCENT of the file system, counted over all templates. The least recently used go first;
 * the directory's modification time is the time of the last use. */
#ifndef SANDBOX_SIZES_H
#define SANDBOX_SIZES_H

#include <stdint.h>

#include "image/home.h"

enum { SIZES_MAX = 16, SIZES_PERCENT = 10 };

/* Notes that the open directory of a snapshot is used now. */
void sizes_used(int snapshot_fd);

/* Removes what is over the limits; bytes_max 0: SIZES_PERCENT. The most recently used snapshot
 * always stays. What cannot be removed is left to the next call. Blocks. */
void sizes_evict(const struct home *h, uint64_t bytes_max);

#endif
