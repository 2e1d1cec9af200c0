/* Fuzzes the disk: a delta file with a damaged header, map and size, on top or below, and then
 * operations of any kind. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/fd.h"
#include "base/reader.h"
#include "vmm/disk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	BLOCKS = 64,
	HEADER_BYTES = 4096,
	MAP_AT = HEADER_BYTES,
	DATA_AT = MAP_AT + 2 * 1024 * 1024,
};

/* A delta of BLOCKS blocks as the format says, then damaged as the input says. */
static int make_delta(struct reader *in)
{
	uint8_t h[HEADER_BYTES] = "MAYFLYD1", map[BLOCKS / 8 + 8];
	int fd = memfd_create("delta", MFD_CLOEXEC), r;
	unsigned changes = reader_u8(in) % 8;

	put_le32(h + 8, 1);
	put_le32(h + 12, DISK_BLOCK_BYTES);
	put_le64(h + 16, BLOCKS * DISK_BLOCK_BYTES);
	put_le64(h + 24, MAP_AT);
	put_le64(h + 32, DATA_AT - MAP_AT);
	put_le64(h + 40, DATA_AT);
	for (unsigned i = 0; i < changes; i++) {
		uint8_t at = reader_u8(in);

		h[at < 64 ? at : at * 16] ^= reader_u8(in);
	}
	put_le32(h + HEADER_BYTES - 4, crc32c(0, h, HEADER_BYTES - 4));
	if (reader_u8(in) == 0xff)
		h[HEADER_BYTES - 1] ^= reader_u8(in);
	reader_copy(in, map, sizeof(map));
	r = fd_pwrite_full(fd, h, sizeof(h), 0);
	assert(r == 0);
	r = fd_pwrite_full(fd, map, sizeof(map), MAP_AT);
	assert(r == 0);
	r = ftruncate(fd, DATA_AT + reader_le16(in) * 16);
	assert(r == 0);
	if (reader_u8(in) == 0xff) {
		r = ftruncate(fd, reader_le32(in) % DATA_AT);
		assert(r == 0);
	}
	return fd;
}

/* Merged, the disk reads the same, and stays openable. */
static void merge(struct disk *d)
{
	static uint8_t before[BLOCKS * DISK_BLOCK_BYTES], after[sizeof(before)];
	int as_before = disk_read(d, 0, before, sizeof(before));
	struct disk_merged *m = NULL;
	struct error e = {0};
	int r = disk_frozen_count(d)
			? disk_merge_frozen(d, memfd_create("merged", MFD_CLOEXEC), &m, &e)
			: -ENOENT;

	if (r < 0) /* a damaged delta may be too short for its map */
		return;
	disk_replace_frozen(d, m);
	r = disk_read(d, 0, after, sizeof(after));
	assert(r == as_before && (r < 0 || memcmp(before, after, sizeof(after)) == 0));
}

static void step(struct disk *d, struct reader *in)
{
	static uint8_t memory[40 * 512];
	uint8_t what = reader_u8(in);
	uint64_t offset = reader_le16(in) % 600 * UINT64_C(512);
	uint32_t n = reader_u8(in) % 40 * 512u;
	struct iovec iov[3] = {{memory, n / 3}, {memory + n / 3, n / 5}, {NULL, 0}};

	iov[2] = (struct iovec){memory + n / 3 + n / 5, n - n / 3 - n / 5};
	switch (what % 8) {
	case 0:
		(void)disk_readv(d, offset, iov, 3); /* any result will do, here and below */
		break;
	case 1:
		(void)disk_writev(d, offset, iov, 3);
		break;
	case 2:
		(void)disk_write_zeroes(d, offset, n);
		break;
	case 3:
		(void)disk_discard(d, offset, n);
		break;
	case 4:
	case 5:
		(void)disk_flush(d);
		break;
	case 6:
		(void)disk_freeze(d, memfd_create("top", MFD_CLOEXEC), NULL);
		break;
	default:
		if (what & 0x80)
			merge(d);
		else
			(void)disk_read(d, offset, memory, n);
		break;
	}
	assert(disk_delta_bytes(d) <= disk_bytes(d) + DISK_BLOCK_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader in = reader_of(data, size);
	uint8_t shape = reader_u8(&in);
	int base = memfd_create("base", MFD_CLOEXEC), lowers[2], top = -1, r;
	unsigned count = shape % 3;
	struct error e = {0};
	struct disk *d;

	r = ftruncate(base, 40 * DISK_BLOCK_BYTES + 512);
	assert(r == 0);
	for (unsigned i = 0; i < count; i++)
		lowers[i] = make_delta(&in);
	if (shape & 0x10)
		top = make_delta(&in);
	else if (shape & 0x20)
		top = memfd_create("top", MFD_CLOEXEC);
	r = disk_open(base, lowers, count, top, BLOCKS * DISK_BLOCK_BYTES, &d, &e);
	assert(r == 0 || e.code != ERROR_NONE);
	if (r < 0)
		return 0;
	while (reader_left(&in) && !in.bad)
		step(d, &in);
	disk_close(d);
	return 0;
}
