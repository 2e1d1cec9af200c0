#include "vmm/hot.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/crc32c.h"
#include "base/fd.h"
#include "base/file.h"
#include "vmm/layers.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum {
	GAP_PAGES = 4,	    /* gaps up to this are included: cheaper than one mapping each */
	SAMPLES = 32,	    /* pages sampled to see if the page cache is cold */
	COLD_PER_CENT = 25, /* it is if more of them are missing */
	HOT_FILE_MAX = HOT_HEAD_MAX + HOT_PAGES_MAX * HOT_PAGE_BYTES
};

static_assert((int)PAGE_BYTES == (int)HOT_PAGE_BYTES, "one size of pages");

/* --- saving --- */

/* #calls start: fadvise64 madvise(MADV_RANDOM) */
void hot_rehearse(const struct guest_memory *m, int memory_fd)
{
	/* These calls only make the result more precise, so failures do not matter. */
	(void)posix_fadvise(memory_fd, 0, 0, POSIX_FADV_DONTNEED);
	(void)madvise(m->map, m->bytes, MADV_RANDOM);
}

static int add_range(struct hot_head *h, const struct page_range *r, bool written)
{
	if (h->range_count == HOT_RANGES_MAX)
		return -E2BIG;
	h->ranges[h->range_count++] = (struct hot_range){r->first, r->count, written};
	return 0;
}

/* Joins two disjoint sets into one sorted list. */
static int merge(struct hot_head *h, const struct page_set *written, const struct page_set *others)
{
	uint32_t w = 0, o = 0;
	int r = 0;

	while (r == 0 && (w < written->count || o < others->count))
		if (o == others->count ||
			(w < written->count && written->ranges[w].first < others->ranges[o].first))
			r = add_range(h, &written->ranges[w++], true);
		else
			r = add_range(h, &others->ranges[o++], false);
	return r < 0 ? r : hot_data_pages(h) > HOT_PAGES_MAX ? -E2BIG : 0;
}

static int find_ranges(const struct guest_memory *m, int pagemap_fd, struct hot_head *h)
{
	struct page_set written = {0}, touched = {0}, others = {0};
	int r = pages_written(m, pagemap_fd, &written);

	if (r == 0)
		r = pages_touched(m, pagemap_fd, &touched);
	if (r == 0) {
		page_set_close_gaps(&touched, GAP_PAGES, HOT_RANGES_MAX);
		r = page_set_subtract(&touched, &written, &others);
	}
	if (r == 0)
		r = merge(h, &written, &others);
	if (r == -E2BIG) { /* written pages matter most */
		h->range_count = 0;
		r = merge(h, &written, &(struct page_set){0});
	}
	page_set_done(&written);
	page_set_done(&touched);
	page_set_done(&others);
	return r;
}

/* Appends the snapshot's content of these pages, behind room for the head.
 *
 * #calls main: pread64 pwritev fsync */
static int add_pages(const struct hot_head *h, int memory_fd, struct buf *out)
{
	size_t head_bytes = hot_head_bytes(h->range_count);
	uint8_t *p = buf_reserve(out, head_bytes);

	if (!p)
		return -ENOMEM;
	buf_commit(out, head_bytes);
	for (uint32_t i = 0; i < h->range_count; i++) {
		size_t n = (size_t)h->ranges[i].count * PAGE_BYTES;
		int r;

		p = buf_reserve(out, n);
		r = p ? fd_pread_full(
				memory_fd, p, n, (off_t)((uint64_t)h->ranges[i].first * PAGE_BYTES))
		      : -ENOMEM;
		if (r < 0)
			return r;
		buf_commit(out, n);
	}
	return 0;
}

static int write_file(struct hot_head *h, int memory_fd, int fd)
{
	struct buf file = BUF_INIT(HOT_FILE_MAX), head = BUF_INIT(HOT_HEAD_MAX);
	size_t head_bytes = hot_head_bytes(h->range_count);
	int r = add_pages(h, memory_fd, &file);

	if (r == 0) {
		h->data_crc = crc32c(0, buf_head(&file) + head_bytes, buf_len(&file) - head_bytes);
		r = hot_head_write(h, &head);
	}
	if (r == 0) {
		memcpy(file.data + file.start, buf_head(&head), head_bytes);
		r = fd_pwrite_full(fd, buf_head(&file), buf_len(&file), 0);
	}
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	buf_done(&file);
	buf_done(&head);
	return r;
}

int hot_save(const struct guest_memory *m, int pagemap_fd, int memory_fd, int fd, struct error *e)
{
	_cleanup_free_ struct hot_head *h = calloc(1, sizeof(*h));
	int r = h ? find_ranges(m, pagemap_fd, h) : -ENOMEM;

	if (r == 0) {
		h->memory_bytes = m->bytes;
		r = write_file(h, memory_fd, fd);
	}
	return r < 0 ? error_set_errno(
			       e, ERROR_INTERNAL, -r, "cannot record the snapshot's hot pages")
		     : 0;
}

/* --- loading --- */

/* Reads the first page, and the rest only of a head that is longer. */
static int read_head(int fd, struct hot_head *h)
{
	uint8_t first[HOT_PAGE_BYTES];
	_cleanup_free_ uint8_t *all = NULL;
	struct stat st;
	size_t n;
	int r;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EBADMSG;
	n = (uint64_t)st.st_size < sizeof(first) ? (size_t)st.st_size : sizeof(first);
	r = fd_pread_full(fd, first, n, 0);
	if (r < 0)
		return r;
	if (hot_head_length(first, n) <= n)
		return hot_head_read(first, n, (uint64_t)st.st_size, h);
	n = hot_head_length(first, n);
	all = (uint64_t)st.st_size < n ? NULL : malloc(n);
	if (!all)
		return -EBADMSG; /* or out of memory: only a hint is lost */
	r = fd_pread_full(fd, all, n, 0);
	return r < 0 ? r : hot_head_read(all, n, (uint64_t)st.st_size, h);
}

/* Samples a few pages. A kernel that does not tell counts as a warm cache.
 *
 * #calls start: mincore */
static bool is_cold(const struct guest_memory *m, const struct hot_head *h)
{
	uint32_t step = h->range_count / SAMPLES + 1;
	unsigned asked = 0, missing = 0;

	for (uint32_t i = 0; i < h->range_count; i += step) {
		unsigned char there = 1;

		(void)mincore(m->map + (uint64_t)h->ranges[i].first * PAGE_BYTES, PAGE_BYTES,
			&there); /* stays 1 on failure */
		asked++;
		missing += !(there & 1);
	}
	return missing * 100 > asked * COLD_PER_CENT;
}

/* Reads the file's data from start to end, which also brings it into the page cache. */
static bool has_right_data(int fd, const struct hot_head *h)
{
	size_t start = hot_head_bytes(h->range_count);
	size_t n = hot_data_pages(h) * PAGE_BYTES;
	uint8_t *p;
	bool right;

	if (n == 0)
		return false;				    /* there is nothing to map */
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED); /* a hint */
	p = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, (off_t)start);
	if (p == MAP_FAILED)
		return false;
	right = crc32c(0, p, n) == h->data_crc;
	(void)munmap(p, n); /* our own mapping: cannot fail */
	return right;
}

/* A failure halfway is harmless: mapped or not, a page has the same content. */
static void map_all(const struct guest_memory *m, const struct hot_head *h,
	const struct page_set *above, int fd)
{
	struct page_set all = {0}, part = {0};
	int r = 0;

	for (uint32_t i = 0; i < h->range_count && r == 0; i++)
		r = page_set_append(&all, h->ranges[i].first, h->ranges[i].count);
	if (r == 0)
		r = page_set_subtract(&all, above, &part);
	if (r == 0 && part.count <= HOT_RANGES_MAX)
		(void)layers_map_part(fd, m, &all, &part, hot_head_bytes(h->range_count));
	page_set_done(&all);
	page_set_done(&part);
}

/* #calls start: madvise(MADV_POPULATE_WRITE) */
static void copy_written(const struct guest_memory *m, const struct hot_head *h)
{
	for (uint32_t i = 0; i < h->range_count; i++) {
		const struct hot_range *r = &h->ranges[i];

		if (r->written && madvise(m->map + (uint64_t)r->first * PAGE_BYTES,
					  (uint64_t)r->count * PAGE_BYTES, MADV_POPULATE_WRITE) < 0)
			return; /* an older kernel, or little memory: the guest faults them in */
	}
}

void hot_load(const struct guest_memory *m, const struct page_set *above, int fd, enum hot_use use)
{
	_cleanup_free_ struct hot_head *h = malloc(sizeof(*h));

	if (!h || read_head(fd, h) < 0 || h->memory_bytes != m->bytes)
		return;
	if (use == HOT_USE_FILE || is_cold(m, h)) {
		if (!has_right_data(fd, h))
			return;
		map_all(m, h, above, fd);
	}
	copy_written(m, h);
}
