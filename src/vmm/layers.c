#include "vmm/layers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/crc32c.h"
#include "base/fd.h"

enum { BATCH_IOVECS = 256, SUM_BYTES = 256 << 10 };

static_assert((int)PAGE_BYTES == (int)LAYER_PAGE_BYTES, "one size of pages");

void memory_stack_done(struct memory_stack *s)
{
	page_set_done(&s->above);
	*s = (struct memory_stack){0};
}

static int cannot(struct error *e, int r, const char *what)
{
	if (r == -ENOSPC || r == -EDQUOT || r == -EFBIG)
		return error_set_errno(e, ERROR_NO_SPACE, -r, "%s: free some disk space", what);
	return error_set_errno(e, r == -ENOMEM ? ERROR_NO_SPACE : ERROR_INTERNAL, -r, "%s", what);
}

/* --- writing --- */

/* Pieces of memory that are adjacent in the file. */
struct batch {
	int fd;
	struct iovec iov[BATCH_IOVECS];
	unsigned count;
	off_t at, end; /* in the file */
};

static int batch_flush(struct batch *b)
{
	int r = b->count ? fd_pwritev_full(b->fd, b->iov, b->count, b->at) : 0;

	b->count = 0;
	b->at = b->end;
	return r;
}

static int batch_add(struct batch *b, uint8_t *data, size_t n, off_t at)
{
	if (b->count == BATCH_IOVECS || at != b->end) {
		int r = batch_flush(b);

		if (r < 0)
			return r;
		b->at = at;
	}
	b->iov[b->count++] = (struct iovec){data, n};
	b->end = at + (off_t)n;
	return 0;
}

static bool page_is_zero(const uint8_t *p)
{
	const uint64_t *q = (const uint64_t *)(const void *)p;

	for (unsigned i = 0; i < PAGE_BYTES / sizeof(*q); i += 4)
		if (q[i] | q[i + 1] | q[i + 2] | q[i + 3])
			return false;
	return true;
}

/* Adds n bytes of memory to the batch. Pages of zeroes stay holes in the file. */
static int add_pages(struct batch *b, uint8_t *data, uint64_t n, off_t at)
{
	uint64_t done = 0;

	while (done < n) {
		uint64_t begin;
		int r = 0;

		while (done < n && page_is_zero(data + done))
			done += PAGE_BYTES;
		for (begin = done; done < n && !page_is_zero(data + done);)
			done += PAGE_BYTES;
		if (done > begin)
			r = batch_add(b, data + begin, done - begin, at + (off_t)begin);
		if (r < 0)
			return r;
	}
	return 0;
}

/* #calls snapshot: ftruncate pwritev */
static int write_pages(int fd, const struct guest_memory *m, const struct page_set *pages,
	bool in_place, uint64_t file_bytes)
{
	struct batch b = {.fd = fd};
	off_t at = (off_t)layer_head_bytes(pages->count);
	int r = ftruncate(fd, (off_t)file_bytes) < 0 ? -errno : 0;

	for (uint32_t i = 0; i < pages->count && r == 0; i++) {
		uint64_t from = (uint64_t)pages->ranges[i].first * PAGE_BYTES;
		uint64_t n = (uint64_t)pages->ranges[i].count * PAGE_BYTES;

		r = add_pages(&b, m->map + from, n, in_place ? (off_t)from : at);
		at += (off_t)n;
	}
	return r < 0 ? r : batch_flush(&b);
}

int layer_write_pages(
	int fd, const struct guest_memory *m, const struct page_set *pages, struct error *e)
{
	uint64_t bytes = layer_head_bytes(pages->count) + page_set_pages(pages) * PAGE_BYTES;
	int r = pages->count <= LAYER_RANGES_MAX ? write_pages(fd, m, pages, false, bytes)
						 : -EINVAL;

	return r < 0 ? cannot(e, r, "cannot write the snapshot's memory") : 0;
}

int base_write_pages(
	int fd, const struct guest_memory *m, const struct page_set *pages, struct error *e)
{
	int r = write_pages(fd, m, pages, true, m->bytes);

	return r < 0 ? cannot(e, r, "cannot write the snapshot's memory") : 0;
}

/* --- completing and checking --- */

static int sum_file(int fd, uint64_t at, uint64_t end, uint32_t *ret)
{
	_cleanup_free_ uint8_t *buffer = malloc(SUM_BYTES);
	uint32_t crc = 0;

	if (!buffer)
		return -ENOMEM;
	while (at < end) {
		size_t n = end - at < SUM_BYTES ? end - at : SUM_BYTES;
		int r = fd_pread_full(fd, buffer, n, (off_t)at);

		if (r < 0)
			return r;
		crc = crc32c(crc, buffer, n);
		at += n;
	}
	*ret = crc;
	return 0;
}

static int write_head(int fd, struct layer_head *h)
{
	struct buf out = BUF_INIT(LAYER_HEAD_MAX);
	uint64_t start = layer_head_bytes(h->range_count);
	int r = sum_file(fd, start, start + layer_data_pages(h) * PAGE_BYTES, &h->data_crc);

	r = r < 0 ? r : layer_head_write(h, &out);
	r = r < 0 ? r : fd_pwrite_full(fd, buf_head(&out), buf_len(&out), 0);
	buf_done(&out);
	return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

int layer_complete(int fd, const struct guest_memory *m, const struct page_set *pages,
	const struct layer_id *id, const struct layer_id *parent, struct error *e)
{
	_cleanup_free_ struct layer_head *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return cannot(e, -ENOMEM, "cannot complete the snapshot's memory");
	h->id = *id;
	h->parent = *parent;
	h->memory_bytes = m->bytes;
	h->range_count = pages->count;
	for (uint32_t i = 0; i < pages->count; i++) {
		h->ranges[i].first = pages->ranges[i].first;
		h->ranges[i].count = pages->ranges[i].count;
	}
	r = write_head(fd, h);
	return r < 0 ? cannot(e, r, "cannot complete the snapshot's memory") : 0;
}

static int damaged(struct error *e, const char *why)
{
	return error_set(e, ERROR_BAD_SNAPSHOT, EINVAL,
		"the snapshot's memory is damaged (%s); restore it from a copy, or start from the "
		"template",
		why);
}

/* #calls start: pread64 fstat
 * #calls glibc start: newfstatat */
static int read_head(int fd, struct layer_head *h, struct error *e)
{
	_cleanup_free_ uint8_t *data = malloc(LAYER_HEAD_MAX);
	struct stat st;
	size_t n;
	int r;

	if (!data)
		return cannot(e, -ENOMEM, "cannot read a memory layer");
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return damaged(e, "a layer is no file");
	n = (uint64_t)st.st_size < LAYER_HEAD_MAX ? (size_t)st.st_size : LAYER_HEAD_MAX;
	r = fd_pread_full(fd, data, n, 0);
	if (r < 0)
		return error_set_errno(
			e, ERROR_BAD_SNAPSHOT, -r, "cannot read a memory layer of the snapshot");
	return layer_head_read(data, n, (uint64_t)st.st_size, h, e);
}

static int check_content(int fd, const struct layer_head *h, struct error *e)
{
	uint64_t start = layer_head_bytes(h->range_count);
	uint32_t crc = 0;
	int r = sum_file(fd, start, start + layer_data_pages(h) * PAGE_BYTES, &crc);

	if (r < 0)
		return error_set_errno(
			e, ERROR_BAD_SNAPSHOT, -r, "cannot read a memory layer of the snapshot");
	return crc == h->data_crc ? 0 : damaged(e, "checksum of a layer's pages");
}

/* --- the stack --- */

/* Pages that are adjacent both in memory and in one layer's file. */
struct piece {
	uint32_t first, count;
	uint32_t layer;
	uint32_t at; /* in the file, in pages */
};

struct pieces {
	struct piece *items; /* owned */
	size_t count, capacity;
};

static int add_piece(struct pieces *p, struct piece piece)
{
	if (p->count == p->capacity) {
		size_t capacity = p->capacity ? p->capacity * 2 : 256;
		void *items = reallocarray(p->items, capacity, sizeof(*p->items));

		if (!items)
			return -ENOMEM;
		p->items = items;
		p->capacity = capacity;
	}
	p->items[p->count++] = piece;
	return 0;
}

/* Walks a layer's ranges in order, beside the pieces below. */
struct walk {
	const struct layer_head *head;
	uint32_t layer, next, at;
	uint64_t covered; /* ranges taken so far end at this page */
};

static int take_range(struct walk *w, struct pieces *out)
{
	uint32_t first = w->head->ranges[w->next].first, count = w->head->ranges[w->next].count;
	struct piece piece = {first, count, w->layer, w->at};

	w->next++;
	w->at += count;
	w->covered = (uint64_t)first + count;
	return add_piece(out, piece);
}

/* Emits the parts of a lower piece that the layer leaves visible, and the layer's ranges that begin
 * before the piece ends. */
static int cover(struct walk *w, const struct piece *p, struct pieces *out)
{
	uint64_t at = p->first, end = (uint64_t)p->first + p->count;

	for (;;) {
		uint64_t stop = end;
		int r = 0;

		while (w->next < w->head->range_count && w->head->ranges[w->next].first <= at &&
			r == 0)
			r = take_range(w, out);
		if (r < 0)
			return r;
		if (at < w->covered) {
			at = w->covered;
			continue;
		}
		if (at >= end)
			return 0;
		if (w->next < w->head->range_count && w->head->ranges[w->next].first < stop)
			stop = w->head->ranges[w->next].first;
		r = add_piece(out, (struct piece){(uint32_t)at, (uint32_t)(stop - at), p->layer,
					   p->at + (uint32_t)(at - p->first)});
		if (r < 0)
			return r;
		at = stop;
	}
}

/* Lays a layer over what is visible so far. */
static int overlay(struct pieces *visible, const struct layer_head *h, uint32_t layer)
{
	struct walk w = {.head = h,
		.layer = layer,
		.at = (uint32_t)(layer_head_bytes(h->range_count) / PAGE_BYTES)};
	struct pieces out = {0};
	int r = 0;

	for (size_t i = 0; i < visible->count && r == 0; i++)
		r = cover(&w, &visible->items[i], &out);
	while (w.next < h->range_count && r == 0)
		r = take_range(&w, &out);
	free(visible->items);
	*visible = out;
	return r;
}

static int check_link(const struct layer_head *h, const struct guest_memory *m,
	const struct memory_stack *below, struct error *e)
{
	if (h->memory_bytes != m->bytes)
		return damaged(e, "a layer belongs to a memory of another size");
	if (!layer_id_equal(&h->parent, &below->top))
		return damaged(e, "a layer does not belong on the one below it");
	return 0;
}

/* Adds one more layer to the stack and its visible pieces. */
static int stack_layer(int fd, bool check, const struct guest_memory *m, struct layer_head *h,
	struct memory_stack *s, struct pieces *visible, struct error *e)
{
	int r = read_head(fd, h, e);

	r = r < 0 ? r : check_link(h, m, s, e);
	if (r == 0 && check)
		r = check_content(fd, h, e);
	if (r < 0)
		return r;
	r = overlay(visible, h, s->layer_count);
	if (r < 0)
		return cannot(e, r, "cannot map the snapshot's memory");
	s->layer_count++;
	s->top = h->id;
	return 0;
}

static uint32_t copy_limit(const struct pieces *p, unsigned max_mappings)
{
	for (uint32_t limit = 0;; limit = limit ? limit * 2 : 1) {
		size_t mapped = 0;

		for (size_t i = 0; i < p->count; i++)
			mapped += p->items[i].count > limit;
		if (mapped <= max_mappings)
			return limit;
	}
}

static int map_from(const struct guest_memory *m, const struct page_range *r, int fd, uint64_t at)
{
	void *p = mmap(m->map + (uint64_t)r->first * PAGE_BYTES, (uint64_t)r->count * PAGE_BYTES,
		PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, (off_t)at);

	return p == MAP_FAILED ? -errno : 0;
}

static int place(const struct guest_memory *m, const struct piece *p, int fd, bool copy)
{
	struct page_range r = {p->first, p->count};
	uint64_t at = (uint64_t)p->at * PAGE_BYTES;

	return copy ? fd_pread_full(fd, m->map + (uint64_t)r.first * PAGE_BYTES,
			      (uint64_t)r.count * PAGE_BYTES, (off_t)at)
		    : map_from(m, &r, fd, at);
}

static int place_all(const struct guest_memory *m, const int *fds, const struct pieces *p,
	unsigned max_mappings, struct memory_stack *s)
{
	uint32_t limit = copy_limit(p, max_mappings);
	int r = 0;

	for (size_t i = 0; i < p->count && r == 0; i++) {
		const struct piece *piece = &p->items[i];

		r = place(m, piece, fds[piece->layer], piece->count <= limit);
		if (r == 0)
			r = page_set_append(&s->above, piece->first, piece->count);
		s->mappings += piece->count > limit;
	}
	return r;
}

int layers_map(const struct guest_memory *m, const int *fds, unsigned count, bool check,
	unsigned max_mappings, struct memory_stack *ret, struct error *e)
{
	_cleanup_free_ struct layer_head *h = count ? malloc(sizeof(*h)) : NULL;
	struct memory_stack s = {.has_base = true};
	struct pieces visible = {0};
	int r = count && !h ? cannot(e, -ENOMEM, "cannot map the snapshot's memory") : 0;

	if (count > SNAPSHOT_LAYERS_MAX)
		r = error_set(e, ERROR_LIMIT, EINVAL, "a memory of %u layers, at most %d", count,
			SNAPSHOT_LAYERS_MAX);
	for (unsigned i = 0; i < count && r == 0; i++)
		r = stack_layer(fds[i], check, m, h, &s, &visible, e);
	if (r == 0) {
		r = place_all(m, fds, &visible, max_mappings, &s);
		if (r < 0)
			(void)cannot(e, r, "cannot map the snapshot's memory"); /* filled */
	}
	free(visible.items);
	if (r < 0)
		memory_stack_done(&s);
	else
		*ret = s;
	return r;
}

/* --- continuing on top of what was written --- */

int layers_map_part(int fd, const struct guest_memory *m, const struct page_set *pages,
	const struct page_set *part, uint64_t at)
{
	const struct page_range *from = pages->ranges; /* its pages begin at file offset `at` */

	for (uint32_t i = 0; i < part->count; i++) {
		const struct page_range *p = &part->ranges[i];
		int r;

		for (; from->first + from->count <= p->first; from++)
			at += (uint64_t)from->count * PAGE_BYTES;
		r = map_from(m, p, fd, at + (uint64_t)(p->first - from->first) * PAGE_BYTES);
		if (r < 0)
			return r;
	}
	return 0;
}

static int adopt(int fd, const struct guest_memory *m, const struct page_set *pages,
	const struct page_set *part)
{
	return layers_map_part(fd, m, pages, part, layer_head_bytes(pages->count));
}

int layer_adopt(int fd, const struct guest_memory *m, const struct page_set *pages, struct error *e)
{
	int r = adopt(fd, m, pages, pages);

	return r < 0 ? cannot(e, r, "cannot map the snapshot's memory") : 0;
}

int layer_adopt_rest(int fd, const struct guest_memory *m, const struct page_set *pages,
	const struct page_set *except, struct error *e)
{
	struct page_set part = {0};
	int r = page_set_subtract(pages, except, &part);

	r = r < 0 ? r : adopt(fd, m, pages, &part);
	page_set_done(&part);
	return r < 0 ? cannot(e, r, "cannot map the snapshot's memory") : 0;
}

int base_adopt(int fd, const struct guest_memory *m, struct error *e)
{
	struct page_range all = {0, (uint32_t)(m->bytes / PAGE_BYTES)};
	int r = map_from(m, &all, fd, 0);

	return r < 0 ? cannot(e, r, "cannot map the snapshot's memory") : 0;
}

/* Writes without changing anything, atomically, because vCPUs may write the page at the same time.
 * No builtin: compilers turn that into a mere load. */
static void touch(uint8_t *p)
{
	__asm__ volatile("lock orb $0, %0" : "+m"(*p));
}

void layer_disown(const struct guest_memory *m, const struct page_set *pages)
{
	for (uint32_t i = 0; i < pages->count; i++) {
		uint8_t *p = m->map + (uint64_t)pages->ranges[i].first * PAGE_BYTES;

		for (uint32_t k = 0; k < pages->ranges[i].count; k++, p += PAGE_BYTES)
			touch(p);
	}
}
