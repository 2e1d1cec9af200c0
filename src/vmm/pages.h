/* Sets of guest pages as sorted ranges, and the question which pages a mapped memory has of its
 * own.
 *
 * Page numbers count from the start of the mapping, without the MMIO gap. A set has no limit of its
 * own; the number of pages in a memory bounds it. */
#ifndef VMM_PAGES_H
#define VMM_PAGES_H

#include <stdint.h>

#include "vmm/memory.h"

enum { PAGE_BYTES = 4096 };

struct page_range {
	uint32_t first, count;
};

/* Sorted ranges, none of them empty, overlapping or adjacent. Zeroed: the empty set. */
struct page_set {
	struct page_range *ranges; /* owned */
	uint32_t count, capacity;
};

void page_set_done(struct page_set *s); /* frees the ranges and leaves an empty set */

/* Adds pages at or behind the end of the last range. Returns 0 or -ENOMEM. */
int page_set_append(struct page_set *s, uint32_t first, uint32_t count);

/* Pages in a or b. out must be empty; -ENOMEM leaves it empty. */
int page_set_union(const struct page_set *a, const struct page_set *b, struct page_set *out);

/* Pages in a but not in b. out as above. */
int page_set_subtract(const struct page_set *a, const struct page_set *b, struct page_set *out);

/* Adds the gaps of at most max_gap pages between ranges to the set. Then closes larger and larger
 * gaps until at most max_ranges ranges are left. */
void page_set_close_gaps(struct page_set *s, uint32_t max_gap, uint32_t max_ranges);

uint64_t page_set_pages(const struct page_set *s);

/* Finds the pages of a file-backed memory that were written since it was mapped, by the guest or by
 * this process. The private mapping has its own copy of these, in memory or in swap. Asks the
 * kernel for just these (PAGEMAP_SCAN, Linux 6.7), else reads the state of every page. out must be
 * empty; an error leaves it empty. Returns 0 or -errno. */
int pages_written(const struct guest_memory *m, int pagemap_fd, struct page_set *out);

/* Opens the pagemap_fd of this process, through a descriptor of /proc (-1: by path). Returns the
 * descriptor or -errno. */
int pages_open(int proc_fd);

/* Finds all pages of a memory in use: those above, and file pages that are mapped now because they
 * were read. When a page is read, the kernel may map its neighbours in the page cache, too.
 * Arguments and result as above. */
int pages_touched(const struct guest_memory *m, int pagemap_fd, struct page_set *out);

#endif
