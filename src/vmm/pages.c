#include "vmm/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Linux 6.7, <linux/fs.h>. The build host's headers may be older. */
struct scan_region {
	uint64_t start, end, categories;
};

struct scan_argument {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define SCAN_IOCTL   _IOWR('f', 16, struct scan_argument)
#define SCAN_FILE    (UINT64_C(1) << 2)
#define SCAN_PRESENT (UINT64_C(1) << 3)
#define SCAN_SWAPPED (UINT64_C(1) << 4)

/* An entry of /proc/self/pagemap. */
#define ENTRY_PRESENT (UINT64_C(1) << 63)
#define ENTRY_SWAPPED (UINT64_C(1) << 62)
#define ENTRY_FILE    (UINT64_C(1) << 61)

enum { REGIONS = 512, ENTRIES = 8192 };

/* --- sets --- */

void page_set_done(struct page_set *s)
{
	free(s->ranges);
	*s = (struct page_set){0};
}

int page_set_append(struct page_set *s, uint32_t first, uint32_t count)
{
	struct page_range *last = s->count ? &s->ranges[s->count - 1] : NULL;

	if (count == 0)
		return 0;
	if (last && last->first + last->count == first) {
		last->count += count;
		return 0;
	}
	if (s->count == s->capacity) {
		uint32_t capacity = s->capacity ? s->capacity * 2 : 64;
		void *p = reallocarray(s->ranges, capacity, sizeof(*s->ranges));

		if (!p)
			return -ENOMEM;
		s->ranges = p;
		s->capacity = capacity;
	}
	s->ranges[s->count++] = (struct page_range){first, count};
	return 0;
}

/* Appends a range that may overlap the end of the set. */
static int append_merged(struct page_set *s, const struct page_range *r)
{
	uint32_t end = s->count ? s->ranges[s->count - 1].first + s->ranges[s->count - 1].count : 0;
	uint32_t first = r->first > end ? r->first : end;

	return r->first + r->count > first ? page_set_append(s, first, r->first + r->count - first)
					   : 0;
}

int page_set_union(const struct page_set *a, const struct page_set *b, struct page_set *out)
{
	uint32_t i = 0, k = 0;

	while (i < a->count || k < b->count) {
		const struct page_range *next;

		if (k == b->count || (i < a->count && a->ranges[i].first <= b->ranges[k].first))
			next = &a->ranges[i++];
		else
			next = &b->ranges[k++];
		if (append_merged(out, next) < 0) {
			page_set_done(out);
			return -ENOMEM;
		}
	}
	return 0;
}

/* Appends the parts of a range that lie outside of b. b's ranges before *next end before it. */
static int append_outside(
	struct page_set *out, const struct page_range *r, const struct page_set *b, uint32_t *next)
{
	uint32_t at = r->first, end = r->first + r->count;

	while (*next < b->count && b->ranges[*next].first < end) {
		const struct page_range *hole = &b->ranges[*next];

		if (hole->first > at && page_set_append(out, at, hole->first - at) < 0)
			return -ENOMEM;
		if (hole->first + hole->count > at)
			at = hole->first + hole->count;
		if (at >= end)
			return 0; /* the hole may reach into the next range */
		(*next)++;
	}
	return page_set_append(out, at, end - at);
}

int page_set_subtract(const struct page_set *a, const struct page_set *b, struct page_set *out)
{
	uint32_t next = 0;

	for (uint32_t i = 0; i < a->count; i++)
		if (append_outside(out, &a->ranges[i], b, &next) < 0) {
			page_set_done(out);
			return -ENOMEM;
		}
	return 0;
}

static void close_gaps(struct page_set *s, uint32_t max_gap)
{
	uint32_t kept = 0;

	for (uint32_t i = 1; i < s->count; i++) {
		struct page_range *last = &s->ranges[kept], *r = &s->ranges[i];

		if (r->first - (last->first + last->count) <= max_gap)
			last->count = r->first + r->count - last->first;
		else
			s->ranges[++kept] = *r;
	}
	if (s->count)
		s->count = kept + 1;
}

void page_set_close_gaps(struct page_set *s, uint32_t max_gap, uint32_t max_ranges)
{
	close_gaps(s, max_gap);
	for (uint64_t gap = max_gap ? max_gap : 1; s->count > max_ranges; gap *= 2)
		close_gaps(s, gap < UINT32_MAX ? (uint32_t)gap : UINT32_MAX);
}

uint64_t page_set_pages(const struct page_set *s)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->count; i++)
		n += s->ranges[i].count;
	return n;
}

/* --- the kernel's view --- */

static int add_regions(
	const struct guest_memory *m, const struct scan_region *r, long n, struct page_set *out)
{
	for (long i = 0; i < n; i++) {
		uint64_t first = (r[i].start - (uintptr_t)m->map) / PAGE_BYTES;
		int err = page_set_append(
			out, (uint32_t)first, (uint32_t)((r[i].end - r[i].start) / PAGE_BYTES));

		if (err < 0)
			return err;
	}
	return 0;
}

/* Finds pages that are present or swapped out. own: leave out a file's pages.
 *
 * #calls main snapshot: ioctl(PAGEMAP_SCAN) */
static int scan(int pagemap_fd, const struct guest_memory *m, bool own, struct page_set *out)
{
	struct scan_region regions[REGIONS];
	struct scan_argument a = {
		.size = sizeof(a),
		.start = (uintptr_t)m->map,
		.end = (uintptr_t)m->map + m->bytes,
		.vec = (uintptr_t)regions,
		.vec_len = REGIONS,
		.category_inverted = own ? SCAN_FILE : 0,
		.category_mask = own ? SCAN_FILE : 0,
		.category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
		.return_mask = SCAN_PRESENT | SCAN_SWAPPED,
	};

	while (a.start < a.end) {
		int n = ioctl(pagemap_fd, SCAN_IOCTL, &a), r;

		if (n < 0)
			return -errno;
		r = add_regions(m, regions, n, out);
		if (r < 0)
			return r;
		if (a.walk_end <= a.start)
			return -EIO;
		a.start = a.walk_end;
	}
	return 0;
}

/* #calls main snapshot (before Linux 6.7): pread64 */
static int read_all(int pagemap_fd, const struct guest_memory *m, bool own, struct page_set *out)
{
	_cleanup_free_ uint64_t *entries = malloc(ENTRIES * sizeof(*entries));
	uint64_t start = (uintptr_t)m->map / PAGE_BYTES, pages = m->bytes / PAGE_BYTES;

	if (!entries)
		return -ENOMEM;
	for (uint64_t at = 0; at < pages;) {
		size_t want = pages - at < ENTRIES ? pages - at : ENTRIES;
		ssize_t n = pread(pagemap_fd, entries, want * sizeof(*entries),
			(off_t)((start + at) * sizeof(*entries)));

		if (n < (ssize_t)sizeof(*entries))
			return n < 0 ? -errno : -EIO;
		for (size_t i = 0; i < (size_t)n / sizeof(*entries); i++, at++) {
			bool there = entries[i] & (ENTRY_PRESENT | ENTRY_SWAPPED) &&
				     !(own && entries[i] & ENTRY_FILE);

			if (there && page_set_append(out, (uint32_t)at, 1) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static int find_pages(const struct guest_memory *m, int pagemap_fd, bool own, struct page_set *out)
{
	int r = scan(pagemap_fd, m, own, out);

	if (r == -ENOTTY || r == -EINVAL) { /* an older kernel */
		page_set_done(out);
		r = read_all(pagemap_fd, m, own, out);
	}
	if (r < 0)
		page_set_done(out);
	return r;
}

int pages_open(int proc_fd)
{
	int fd = proc_fd < 0 ? open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)
			     : openat(proc_fd, "self/pagemap", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int pages_written(const struct guest_memory *m, int pagemap_fd, struct page_set *out)
{
	return find_pages(m, pagemap_fd, true, out);
}

int pages_touched(const struct guest_memory *m, int pagemap_fd, struct page_set *out)
{
	return find_pages(m, pagemap_fd, false, out);
}
