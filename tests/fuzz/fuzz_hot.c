/* Fuzzes a snapshot's file of hot pages: a head that somebody made up, its checksums right or not,
 * used over a small memory with and without pages of a layer. Pages come from the snapshot or from
 * an intact file, those of layers stay, and nothing outside of the memory is touched. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/fd.h"
#include "base/reader.h"
#include "vmm/hot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAGES = 64, RANGES = 12, FILE_PAGES = 1 + RANGES * 4, CRC_AT = HOT_HEADER_BYTES - 4 };

static void must(int r)
{
	if (r < 0)
		abort(); /* this program's own failure */
}

static uint64_t put_ranges(struct reader *in, uint8_t *p, uint32_t ranges)
{
	uint32_t page = 0;
	uint64_t pages = 0;

	for (uint32_t i = 0; i < ranges; i++, p += HOT_RANGE_BYTES) {
		uint32_t count = 1 + reader_u8(in) % 4;

		page += reader_u8(in) % 4;
		put_le32(p, page);
		put_le32(p + 4, count);
		put_le32(p + 8, reader_u8(in) % 2);
		page += count;
		pages += count;
	}
	return pages;
}

/* A file as the format says, then damaged as the input says. All of its pages are 'f'. */
static int make_file(struct reader *in)
{
	static uint8_t file[FILE_PAGES * PAGE_BYTES];
	uint32_t ranges = reader_u8(in) % RANGES;
	int fd = memfd_create("hot", MFD_CLOEXEC);
	uint64_t pages;

	memset(file, 'f', sizeof(file));
	memset(file, 0, PAGE_BYTES);
	memcpy(file, "MAYFLYHP", 8);
	put_le32(file + 8, HOT_VERSION);
	put_le32(file + 12, ranges);
	put_le64(file + 16, PAGES * PAGE_BYTES);
	put_le64(file + 24, PAGE_BYTES);
	pages = put_ranges(in, file + HOT_HEADER_BYTES, ranges);
	put_le64(file + 32, pages * PAGE_BYTES);
	put_le32(file + 40, crc32c(0, file + PAGE_BYTES, pages * PAGE_BYTES));
	for (unsigned n = reader_u8(in) % 6; n; n--) {
		uint8_t at = reader_u8(in);

		file[at] ^= reader_u8(in);
	}
	if (reader_u8(in) != 0xff && get_le32(file + 12) <= 300)
		put_le32(file + CRC_AT, crc32c(crc32c(0, file, CRC_AT), file + HOT_HEADER_BYTES,
						get_le32(file + 12) * HOT_RANGE_BYTES));
	if (reader_u8(in) % 8 == 0)
		file[PAGE_BYTES + reader_u8(in)] ^= 1; /* its pages are damaged */
	must(fd_pwrite_full(fd, file, (1 + pages) * PAGE_BYTES, 0));
	must(ftruncate(fd, (off_t)(PAGE_BYTES * (1 + pages) + reader_u8(in) % 2 * 512)));
	return fd;
}

static void check(const struct guest_memory *m, const struct page_set *above)
{
	for (uint32_t i = 0; i < PAGES; i++) {
		const uint8_t *p = m->map + (uint64_t)i * PAGE_BYTES;
		bool layer = above->count && i >= above->ranges[0].first &&
			     i < above->ranges[0].first + above->ranges[0].count;

		for (unsigned k = 0; k < PAGE_BYTES; k++)
			if (p[k] != 's' && (layer || p[k] != 'f'))
				abort(); /* damage came through, or a layer's page is gone */
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t content[PAGES * PAGE_BYTES];
	struct reader in = reader_of(data, size);
	int base = memfd_create("memory", MFD_CLOEXEC), fd;
	struct page_range layer = {reader_u8(&in) % 40, 1 + reader_u8(&in) % 8};
	struct page_set above = {.ranges = &layer, .count = reader_u8(&in) % 2};
	struct guest_memory m;

	memset(content, 's', sizeof(content));
	must(fd_pwrite_full(base, content, sizeof(content), 0));
	must(guest_memory_map(&m, base, sizeof(content), NULL));
	fd = make_file(&in);
	hot_load(&m, &above, fd, reader_u8(&in) % 2 ? HOT_USE_FILE : HOT_USE_AUTO);
	check(&m, &above);
	guest_memory_done(&m);
	(void)close(fd); /* temporary */
	(void)close(base);
	return 0;
}
