#include "vmm/hot.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "vmm/pages.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum {
	HEADER_BYTES = 16,
	RANGE_BYTES = 8,
	HOT_FILE_MAX = HEADER_BYTES + HOT_RANGES_MAX * RANGE_BYTES
};

static const char hot_file[] = "hot";
static const char magic[8] = {'M', 'F', 'L', 'Y', 'H', 'O', 'T', '1'};

/* --- saving --- */

static int add_ranges(const struct page_set *pages, struct buf *out)
{
	int err = 0;

	for (uint32_t i = 0; i < pages->count; i++) {
		err |= buf_add_le32(out, pages->ranges[i].first);
		err |= buf_add_le32(out, pages->ranges[i].count);
	}
	return err ? -EMSGSIZE : 0;
}

static int write_file(const struct buf *ranges, int dirfd)
{
	struct buf out = BUF_INIT(HOT_FILE_MAX);
	size_t n = buf_len(ranges);
	const uint8_t *data = n ? buf_head(ranges) : (const uint8_t *)"";
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
	struct buf ranges = BUF_INIT(HOT_RANGES_MAX * RANGE_BYTES);
	struct page_set pages = {0};
	int err = pages_written(m, &pages);

	if (err == 0)
		err = add_ranges(&pages, &ranges);
	if (err == 0)
		err = write_file(&ranges, snapshot_dirfd);
	page_set_done(&pages);
	buf_done(&ranges);
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

void hot_load(const struct guest_memory *m, int fd)
{
	_cleanup_free_ char *file = NULL;
	const uint8_t *p;
	size_t n;

	if (file_read_fd(fd, HOT_FILE_MAX, &file, &n) < 0)
		return;
	p = (const uint8_t *)file;
	if (!is_intact(p, n))
		return;
	for (p += HEADER_BYTES; p + RANGE_BYTES <= (const uint8_t *)file + n; p += RANGE_BYTES) {
		uint64_t at = (uint64_t)get_le32(p) * PAGE_BYTES,
			 bytes = (uint64_t)get_le32(p + 4) * PAGE_BYTES;

		if (at >= m->bytes || bytes > m->bytes - at)
			return;
		if (madvise(m->map + at, bytes, MADV_POPULATE_WRITE) < 0)
			return; /* an older kernel, or little memory: the guest faults them in */
	}
}
