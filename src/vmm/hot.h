/* The working set of a snapshot: the pages that a guest touches on its way from the restore to the end
 * of its first command. A rehearsal right after the snapshot finds them; the snapshot's file `hot`
 * (proto/hot_file.h) names them and has a copy of each.
 *
 * Pages that are written. Left alone, each costs the restored guest up to three exits: it reads the
 * page, writes it, and faults again because the copy invalidated what KVM had mapped. With several
 * vCPUs the invalidations also make the faults of the others start over. Copied beforehand, in one
 * go and before KVM knows the memory, a page costs one fault, and no interrupt to another CPU.
 *
 * All pages, with a cold page cache. Left alone, the guest waits for the disk once per page or few
 * pages. So all of them are read at once from `hot`, where they lie one after the other, and mapped
 * from there instead of from the memory file. With a warm page cache that would only cost
 * mappings, so it is not done.
 *
 * The file is a hint: one that is missing or damaged costs time and nothing else, so loading does not
 * fail. Before pages are mapped from it their checksum is computed. */
#ifndef VMM_HOT_H
#define VMM_HOT_H

#include "base/error.h"
#include "proto/hot_file.h"
#include "vmm/memory.h"
#include "vmm/pages.h"

/* To be called for a rehearsal, when the memory has just been mapped from memory_fd: from then on pages
 * come from the disk one by one, so that just those are present which the guest has touched. */
void hot_rehearse(const struct guest_memory *m, int memory_fd);

/* Writes to fd, an empty file, the pages that were written since m was mapped from memory_fd, those
 * that were read, and what memory_fd has in them. */
int hot_save(const struct guest_memory *m, int pagemap_fd, int memory_fd, int fd, struct error *e);

enum hot_use {
	HOT_USE_AUTO, /* maps pages from the file when the page cache lacks those of the memory */
	HOT_USE_FILE, /* maps them from the file: for tests */
};

/* Makes the pages that the file fd names ready. above: those that memory layers have, which are not
 * taken from the file. */
void hot_load(const struct guest_memory *m, const struct page_set *above, int fd, enum hot_use use);

#endif
