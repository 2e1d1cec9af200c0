/* Fuzzes memory layers: one or two files with heads that somebody made up, their checksums right or
 * not, mapped over a small memory. What is accepted must lie within it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/fd.h"
#include "base/reader.h"
#include "vmm/layers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAGES = 64, RANGES = 12, CRC_AT = LAYER_HEADER_BYTES - 4 };

static void must(int r)
{
	if (r < 0)
		abort(); /* this program's own failure */
}

/* A layer as the format says, then damaged as the input says. */
static int make_layer(struct reader *in, uint8_t id, uint8_t parent)
{
	uint8_t p[PAGE_BYTES] = "MAYFLYML";
	uint32_t ranges = reader_u8(in) % RANGES, page = 0;
	int fd = memfd_create("layer", MFD_CLOEXEC);
	uint64_t pages = 0;

	put_le32(p + 8, LAYER_VERSION);
	put_le32(p + 12, ranges);
	put_le64(p + 16, PAGES * PAGE_BYTES);
	put_le64(p + 24, PAGE_BYTES);
	p[40] = id;
	p[56] = parent;
	for (uint32_t i = 0; i < ranges; i++) {
		uint32_t count = 1 + reader_u8(in) % 4;

		page += reader_u8(in) % 4;
		put_le32(p + LAYER_HEADER_BYTES + i * LAYER_RANGE_BYTES, page);
		put_le32(p + LAYER_HEADER_BYTES + i * LAYER_RANGE_BYTES + 4, count);
		page += count;
		pages += count;
	}
	put_le64(p + 32, pages * PAGE_BYTES);
	for (unsigned n = reader_u8(in) % 6; n; n--) {
		uint8_t at = reader_u8(in);

		p[at] ^= reader_u8(in);
	}
	if (reader_u8(in) != 0xff && get_le32(p + 12) <= 400)
		put_le32(p + CRC_AT, crc32c(crc32c(0, p, CRC_AT), p + LAYER_HEADER_BYTES,
					     get_le32(p + 12) * LAYER_RANGE_BYTES));
	must(fd_pwrite_full(fd, p, sizeof(p), 0));
	must(ftruncate(fd, (off_t)(PAGE_BYTES * (1 + pages) + reader_u8(in) % 2 * 512)));
	return fd;
}

static void check(const struct guest_memory *m, const struct memory_stack *s)
{
	for (uint32_t i = 0; i < s->above.count; i++)
		if ((uint64_t)s->above.ranges[i].first + s->above.ranges[i].count > PAGES)
			abort(); /* outside of the memory */
	for (unsigned i = 0; i < PAGES; i++)
		(void)*(volatile const uint8_t *)&m->map[(uint64_t)i * PAGE_BYTES]; /* is there */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader in = reader_of(data, size);
	int base = memfd_create("base", MFD_CLOEXEC), fds[2] = {-1, -1};
	unsigned count = 1 + reader_u8(&in) % 2, limit = reader_u8(&in) % 20;
	struct memory_stack s = {0};
	struct error e = {0};
	struct guest_memory m;

	must(ftruncate(base, PAGES * PAGE_BYTES));
	must(guest_memory_map(&m, base, PAGES * PAGE_BYTES, &e));
	for (unsigned i = 0; i < count; i++)
		fds[i] = make_layer(&in, (uint8_t)(i + 1), (uint8_t)i);
	if (layers_map(&m, fds, count, reader_u8(&in) % 2, limit, &s, &e) == 0)
		check(&m, &s);
	else if (!e.message[0])
		abort(); /* every refusal says why */
	memory_stack_done(&s);
	guest_memory_done(&m);
	for (unsigned i = 0; i < count; i++)
		(void)close(fds[i]); /* temporary */
	(void)close(base);
	return 0;
}
