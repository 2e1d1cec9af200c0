#include "vmm/hot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/crc32c.h"
#include "base/file.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_FILE	(UINT64_C(1) << 61)

enum { PAGE = 4096, HEADER_BYTES = 16, RANGE_BYTES = 8, BATCH = 8192 };

static const char hot_file[] = "hot";
static const char magic[8] = {'M', 'F', 'L', 'Y', 'H', 'O', 'T', '1'};

/* --- saving --- */

struct ranges {
	struct buf bytes;
	uint32_t first, pages; /* the open one; pages 0: none */
	int err;
};

static void end_range(struct ranges *r)
{
	if (r->pages == 0)
		return;
	r->err |= buf_add_le32(&r->bytes, r->first);
	r->err |= buf_add_le32(&r->bytes, r->pages);
	r->pages = 0;
}

static void add_page(struct ranges *r, uint32_t page)
{
	if (r->pages && r->first + r->pages == page) {
		r->pages++;
		return;
	}
	end_range(r);
	r->first = page;
	r->pages = 1;
}

/* A page of a private mapping of a file is no longer the file's once it was written. */
static int scan(const struct guest_memory *m, struct ranges *r)
{
	_cleanup_close_ int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ uint64_t *entries = malloc(BATCH * sizeof(*entries));
	uint64_t start = (uintptr_t)m->map / PAGE, pages = m->bytes / PAGE;

	if (fd < 0 || !entries)
		return fd < 0 ? -errno : -ENOMEM;
	for (uint64_t at = 0; at < pages;) {
		size_t want = pages - at < BATCH ? pages - at : BATCH;
		ssize_t n = pread(fd, entries, want * sizeof(*entries),
			(off_t)((start + at) * sizeof(*entries)));

		if (n < (ssize_t)sizeof(*entries))
			return n < 0 ? -errno : -EIO;
		for (size_t i = 0; i < (size_t)n / sizeof(*entries); i++, at++)
			if ((entries[i] & (PAGEMAP_PRESENT | PAGEMAP_FILE)) == PAGEMAP_PRESENT)
				add_page(r, (uint32_t)at);
	}
	end_range(r);
	return r->err ? -EMSGSIZE : 0;
}

static int write_ranges(const struct ranges *r, int dirfd)
{
	struct buf out = BUF_INIT(HEADER_BYTES + HOT_RANGES_MAX * RANGE_BYTES);
	size_t n = buf_len(&r->bytes);
	const uint8_t *data = n ? buf_head(&r->bytes) : (const uint8_t *)"";
	int err = buf_add(&out, magic, sizeof(magic));

	err |= buf_add_le32(&out, (uint32_t)(n / RANGE_BYTES));
	err |= buf_add_le32(&out, crc32c(0, data, n));
	err |= buf_add(&out, data, n);
	err = err ? -ENOMEM
		  : file_write_atomic(dirfd, hot_file, buf_head(&out), buf_len(&out), 0600);
	buf_done(&out);
	return err;
}

int hot_save(const struct guest_memory *m, int snapshot_dirfd, struct error *e)
{
	struct ranges r = {.bytes = BUF_INIT(HOT_RANGES_MAX * RANGE_BYTES)};
	int err = scan(m, &r);

	if (err == 0)
		err = write_ranges(&r, snapshot_dirfd);
	buf_done(&r.bytes);
	return err < 0 ? error_set_errno(
				 e, ERROR_INTERNAL, -err, "cannot record the snapshot's hot pages")
		       : 0;
}

/* --- loading --- */

static bool is_intact(const uint8_t *file, size_t n)
{
	return n >= HEADER_BYTES && memcmp(file, magic, sizeof(magic)) == 0 &&
	       get_le32(file + 8) == (n - HEADER_BYTES) / RANGE_BYTES &&
	       get_le32(file + 12) == crc32c(0, file + HEADER_BYTES, n - HEADER_BYTES);
}

void hot_load(const struct guest_memory *m, int snapshot_dirfd)
{
	_cleanup_free_ char *file = NULL;
	const uint8_t *p;
	size_t n;

	if (file_read(snapshot_dirfd, hot_file, HEADER_BYTES + HOT_RANGES_MAX * RANGE_BYTES, &file,
		    &n) < 0)
		return;
	p = (const uint8_t *)file;
	if (!is_intact(p, n))
		return;
	for (p += HEADER_BYTES; p + RANGE_BYTES <= (const uint8_t *)file + n; p += RANGE_BYTES) {
		uint64_t at = (uint64_t)get_le32(p) * PAGE,
			 bytes = (uint64_t)get_le32(p + 4) * PAGE;

		if (at >= m->bytes || bytes > m->bytes - at)
			return;
		if (madvise(m->map + at, bytes, MADV_POPULATE_WRITE) < 0)
			return; /* an older kernel, or little memory: the guest faults them in */
	}
}
