#include "proto/memory_layer.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"

/* Header: magic[8], version le32, ranges le32, memory bytes le64, data offset le64, data bytes
 * le64, id[16], parent[16], CRC-32C of the data le32, zeroes, CRC-32C of header (up to here) and
 * table. */
static const char magic[8] = "MAYFLYML";
enum { CRC_AT = LAYER_HEADER_BYTES - 4 };

static_assert(LAYER_HEADER_BYTES + LAYER_RANGES_MAX * LAYER_RANGE_BYTES <= LAYER_HEAD_MAX, "fits");

bool layer_id_equal(const struct layer_id *a, const struct layer_id *b)
{
	return memcmp(a->bytes, b->bytes, LAYER_ID_BYTES) == 0;
}

uint64_t layer_head_bytes(uint32_t range_count)
{
	uint64_t n = LAYER_HEADER_BYTES + (uint64_t)range_count * LAYER_RANGE_BYTES;

	return (n + LAYER_PAGE_BYTES - 1) / LAYER_PAGE_BYTES * LAYER_PAGE_BYTES;
}

uint64_t layer_data_pages(const struct layer_head *h)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < h->range_count; i++)
		n += h->ranges[i].count;
	return n;
}

static uint32_t head_crc(const uint8_t *p, uint32_t range_count)
{
	return crc32c(crc32c(0, p, CRC_AT), p + LAYER_HEADER_BYTES,
		(size_t)range_count * LAYER_RANGE_BYTES);
}

int layer_head_write(const struct layer_head *h, struct buf *out)
{
	uint64_t n = layer_head_bytes(h->range_count);
	uint8_t *p = buf_reserve(out, n);

	if (!p)
		return -ENOMEM;
	memset(p, 0, n);
	memcpy(p, magic, sizeof(magic));
	put_le32(p + 8, LAYER_VERSION);
	put_le32(p + 12, h->range_count);
	put_le64(p + 16, h->memory_bytes);
	put_le64(p + 24, n);
	put_le64(p + 32, layer_data_pages(h) * LAYER_PAGE_BYTES);
	memcpy(p + 40, h->id.bytes, LAYER_ID_BYTES);
	memcpy(p + 56, h->parent.bytes, LAYER_ID_BYTES);
	put_le32(p + 72, h->data_crc);
	for (uint32_t i = 0; i < h->range_count; i++) {
		put_le32(p + LAYER_HEADER_BYTES + i * LAYER_RANGE_BYTES, h->ranges[i].first);
		put_le32(p + LAYER_HEADER_BYTES + i * LAYER_RANGE_BYTES + 4, h->ranges[i].count);
	}
	put_le32(p + CRC_AT, head_crc(p, h->range_count));
	buf_commit(out, n);
	return 0;
}

static int damaged(struct error *e, const char *why)
{
	return error_set(e, ERROR_BAD_SNAPSHOT, EINVAL,
		"a memory layer of the snapshot is damaged (%s); restore it from a copy, or start "
		"from the template",
		why);
}

static int check_header(const uint8_t *p, size_t n, struct error *e)
{
	if (n < LAYER_HEADER_BYTES)
		return damaged(e, "truncated");
	if (memcmp(p, magic, sizeof(magic)) != 0)
		return damaged(e, "not a memory layer");
	if (get_le32(p + 8) != LAYER_VERSION)
		return error_set(e, ERROR_INCOMPATIBLE, EINVAL,
			"a memory layer has format version %u, this Mayfly reads version %d; use "
			"the "
			"Mayfly that wrote it",
			get_le32(p + 8), LAYER_VERSION);
	if (get_le32(p + 12) > LAYER_RANGES_MAX || n < layer_head_bytes(get_le32(p + 12)))
		return damaged(e, "truncated");
	if (get_le32(p + CRC_AT) != head_crc(p, get_le32(p + 12)))
		return damaged(e, "checksum of its table");
	return 0;
}

static int read_ranges(const uint8_t *p, struct layer_head *h, struct error *e)
{
	uint64_t end = 0, pages = h->memory_bytes / LAYER_PAGE_BYTES;

	for (uint32_t i = 0; i < h->range_count; i++, p += LAYER_RANGE_BYTES) {
		uint64_t first = get_le32(p), count = get_le32(p + 4);

		if (count == 0 || first < end || first + count > pages)
			return damaged(e, "impossible range of pages");
		h->ranges[i].first = (uint32_t)first;
		h->ranges[i].count = (uint32_t)count;
		end = first + count;
	}
	return 0;
}

int layer_head_read(
	const void *data, size_t n, uint64_t file_bytes, struct layer_head *ret, struct error *e)
{
	const uint8_t *p = data;
	uint64_t data_bytes;
	int r = check_header(p, n, e);

	if (r < 0)
		return r;
	ret->range_count = get_le32(p + 12);
	ret->memory_bytes = get_le64(p + 16);
	data_bytes = get_le64(p + 32);
	memcpy(ret->id.bytes, p + 40, LAYER_ID_BYTES);
	memcpy(ret->parent.bytes, p + 56, LAYER_ID_BYTES);
	ret->data_crc = get_le32(p + 72);
	r = read_ranges(p + LAYER_HEADER_BYTES, ret, e);
	if (r < 0)
		return r;
	if (get_le64(p + 24) != layer_head_bytes(ret->range_count) ||
		data_bytes != layer_data_pages(ret) * LAYER_PAGE_BYTES)
		return damaged(e, "its table and its size disagree");
	if (file_bytes != get_le64(p + 24) + data_bytes)
		return damaged(e, file_bytes < get_le64(p + 24) + data_bytes
					  ? "truncated"
					  : "longer than it says");
	return 0;
}
