/* The working set of a snapshot: the pages that a guest touches from the restore to the end of its
 * first command. A rehearsal right after the snapshot finds them. The snapshot's file `hot`
 * (proto/hot_file.h) names them and has a copy of each.
 *
 * Written pages. If nothing is done, each costs the restored guest up to three exits: it reads the
 * page, writes it, and faults again because the copy invalidated KVM's mapping. With several vCPUs,
 * each invalidation also restarts the others' faults. Copying these pages in one go, before KVM
 * knows the memory, leaves one fault per page and no interrupts to other CPUs.
 *
 * All pages, if the page cache is cold. If nothing is done, the guest waits for the disk once per
 * page or few pages. Instead `hot`, where they lie side by side, is read at once and the pages are
 * mapped from there. With a warm page cache this would only cost mappings, so it is not done.
 *
 * The file is a hint. A missing or damaged one costs only time, so loading does not fail. Its
 * checksum is verified before pages are mapped from it. */
#ifndef VMM_HOT_H
#define VMM_HOT_H

#include "base/error.h"
#include "proto/hot_file.h"
#include "vmm/memory.h"
#include "vmm/pages.h"

/* Call this for a rehearsal right after memory was mapped from memory_fd. From then on pages come
 * from the disk one by one, so only those that the guest touches are present. */
void hot_rehearse(const struct guest_memory *m, int memory_fd);

/* Writes the working set to fd, an empty file: the pages written since m was mapped from memory_fd,
 * the pages read, and memory_fd's content of both. */
int hot_save(const struct guest_memory *m, int pagemap_fd, int memory_fd, int fd, struct error *e);

enum hot_use {
	HOT_USE_AUTO, /* maps pages from the file if the page cache lacks the memory's */
	HOT_USE_FILE, /* always maps pages from the file; for tests */
};

/* Prepares the pages that the file fd names. above: pages of memory layers, which are never mapped
 * from the file. */
void hot_load(const struct guest_memory *m, const struct page_set *above, int fd, enum hot_use use);

#endif
