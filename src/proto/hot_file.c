#include "proto/hot_file.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"

/* Header: magic[8], version le32, ranges le32, memory bytes le64, data offset le64, data bytes
 * le64, CRC-32C of the data le32, zero le32, zero le32, CRC-32C of header (up to here) and
 * table. */
static const char magic[8] = "MAYFLYHP";
enum { CRC_AT = HOT_HEADER_BYTES - 4 };
enum { FLAG_WRITTEN = 1 };

static_assert(HOT_HEADER_BYTES + HOT_RANGES_MAX * HOT_RANGE_BYTES <= HOT_HEAD_MAX, "fits");

uint64_t hot_head_bytes(uint32_t range_count)
{
	uint64_t n = HOT_HEADER_BYTES + (uint64_t)range_count * HOT_RANGE_BYTES;

	return (n + HOT_PAGE_BYTES - 1) / HOT_PAGE_BYTES * HOT_PAGE_BYTES;
}

uint64_t hot_data_pages(const struct hot_head *h)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < h->range_count; i++)
		n += h->ranges[i].count;
	return n;
}

static uint32_t head_crc(const uint8_t *p, uint32_t range_count)
{
	return crc32c(
		crc32c(0, p, CRC_AT), p + HOT_HEADER_BYTES, (size_t)range_count * HOT_RANGE_BYTES);
}

int hot_head_write(const struct hot_head *h, struct buf *out)
{
	uint64_t n = hot_head_bytes(h->range_count);
	uint8_t *p = buf_reserve(out, n), *entry;

	if (!p)
		return -ENOMEM;
	memset(p, 0, n);
	memcpy(p, magic, sizeof(magic));
	put_le32(p + 8, HOT_VERSION);
	put_le32(p + 12, h->range_count);
	put_le64(p + 16, h->memory_bytes);
	put_le64(p + 24, n);
	put_le64(p + 32, hot_data_pages(h) * HOT_PAGE_BYTES);
	put_le32(p + 40, h->data_crc);
	entry = p + HOT_HEADER_BYTES;
	for (uint32_t i = 0; i < h->range_count; i++, entry += HOT_RANGE_BYTES) {
		put_le32(entry, h->ranges[i].first);
		put_le32(entry + 4, h->ranges[i].count);
		put_le32(entry + 8, h->ranges[i].written ? FLAG_WRITTEN : 0);
	}
	put_le32(p + CRC_AT, head_crc(p, h->range_count));
	buf_commit(out, n);
	return 0;
}

size_t hot_head_length(const void *data, size_t n)
{
	const uint8_t *p = data;

	if (n < HOT_HEADER_BYTES || memcmp(p, magic, sizeof(magic)) != 0 ||
		get_le32(p + 8) != HOT_VERSION || get_le32(p + 12) > HOT_RANGES_MAX)
		return 0;
	return (size_t)hot_head_bytes(get_le32(p + 12));
}

static bool has_header(const uint8_t *p, size_t n)
{
	size_t length = hot_head_length(p, n);

	return length && n >= length && get_le32(p + CRC_AT) == head_crc(p, get_le32(p + 12));
}

static bool read_ranges(const uint8_t *p, struct hot_head *h)
{
	uint64_t end = 0, pages = h->memory_bytes / HOT_PAGE_BYTES;

	for (uint32_t i = 0; i < h->range_count; i++, p += HOT_RANGE_BYTES) {
		uint64_t first = get_le32(p), count = get_le32(p + 4);

		if (count == 0 || first < end || first + count > pages ||
			get_le32(p + 8) > FLAG_WRITTEN)
			return false;
		h->ranges[i] = (struct hot_range){
			(uint32_t)first, (uint32_t)count, get_le32(p + 8) == FLAG_WRITTEN};
		end = first + count;
	}
	return true;
}

int hot_head_read(const void *data, size_t n, uint64_t file_bytes, struct hot_head *ret)
{
	const uint8_t *p = data;
	uint64_t head_bytes;

	if (!has_header(p, n))
		return -EBADMSG;
	ret->range_count = get_le32(p + 12);
	ret->memory_bytes = get_le64(p + 16);
	ret->data_crc = get_le32(p + 40);
	if (!read_ranges(p + HOT_HEADER_BYTES, ret) || hot_data_pages(ret) > HOT_PAGES_MAX)
		return -EBADMSG;
	head_bytes = hot_head_bytes(ret->range_count);
	return get_le64(p + 24) == head_bytes &&
			       get_le64(p + 32) == hot_data_pages(ret) * HOT_PAGE_BYTES &&
			       file_bytes == head_bytes + get_le64(p + 32)
		       ? 0
		       : -EBADMSG;
}
