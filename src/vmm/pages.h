/* Sets of guest pages as sorted ranges, and the question which pages a mapped memory has of its
 * own.
 *
 * Page numbers count from the start of the mapping (without the MMIO gap). A range that would pass
 * the end of a list's maximum is refused, so no set grows without bound. */
#ifndef VMM_PAGES_H
#define VMM_PAGES_H

#include <stdint.h>

#include "vmm/memory.h"

enum { PAGE_BYTES = 4096 };

struct page_range {
	uint32_t first, count;
};

/* Ascending, not empty, neither overlapping nor touching. Zeroed: an empty set. */
struct page_set {
	struct page_range *ranges; /* owned */
	uint32_t count, capacity;
};

void page_set_done(struct page_set *s); /* frees; the set is empty then */

/* Adds pages at or behind the end of the last range. 0 or -ENOMEM. */
int page_set_append(struct page_set *s, uint32_t first, uint32_t count);

/* What is in either. out is empty before; -ENOMEM leaves it empty. */
int page_set_union(const struct page_set *a, const struct page_set *b, struct page_set *out);

/* What is in a and not in b; as above. */
int page_set_subtract(const struct page_set *a, const struct page_set *b, struct page_set *out);

/* Takes the gaps of at most max_gap pages between ranges into the set; with a limit to the number
 * of ranges, larger gaps as well, until it is kept. */
void page_set_close_gaps(struct page_set *s, uint32_t max_gap, uint32_t max_ranges);

uint64_t page_set_pages(const struct page_set *s);

/* Which pages of a memory that was mapped from files have been written since, by the guest or by
 * this process: a private mapping has its own copy of these, in memory or in swap. Asks the kernel
 * for just these (PAGEMAP_SCAN, Linux 6.7) or reads the state of every page. out is empty before;
 * 0 or -errno, out is empty then. */
int pages_written(const struct guest_memory *m, int pagemap_fd, struct page_set *out);

/* The pagemap_fd of this process, through a descriptor of /proc (-1: by its path). Descriptor or
 * -errno. */
int pages_open(int proc_fd);

/* Which pages of a memory are in use at all: those above, and the files' that are mapped at the
 * moment, as they were read. A kernel maps others along with one that is read, if it has them in its
 * page cache. As above. */
int pages_touched(const struct guest_memory *m, int pagemap_fd, struct page_set *out);

#endif
