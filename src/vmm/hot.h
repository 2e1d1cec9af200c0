/* The hot pages of a snapshot: those that a guest writes on its way from the restore to the end of
 * its first command, as a rehearsal right after the snapshot has found them.
 *
 * Left alone, each of them costs the restored guest up to three exits: it reads the page, writes
 * it, and faults again because the copy invalidated what KVM had mapped. With several vCPUs the
 * invalidations also make the faults of the others start over. Copied beforehand, in one go and
 * before KVM knows the memory, a page costs one fault, and no interrupt to another CPU.
 *
 * The file "hot" in a snapshot's directory is a hint: one that is missing or damaged costs time and
 * nothing else, so nothing here fails. Little-endian: magic, count, CRC-32C of what follows, then
 * `count` ranges {first page, pages}. */
#ifndef VMM_HOT_H
#define VMM_HOT_H

#include "base/error.h"
#include "vmm/memory.h"

enum { HOT_RANGES_MAX = 8192 };

/* Writes which pages of a memory that was mapped from a snapshot have been written since. */
int hot_save(const struct guest_memory *m, int snapshot_dirfd, struct error *e);

/* Gives the memory its own copies of the hot pages that the file fd names. */
void hot_load(const struct guest_memory *m, int fd);

#endif
