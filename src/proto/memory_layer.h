/* A layer of a snapshot's memory: the pages that were written since the previous snapshot.
 *
 * A file holds a head (header and table), padded to whole pages, then the pages of the table's
 * ranges in order. So the table alone tells where each page lies. Pages of zeroes may be holes.
 * docs/snapshot-format.md is the specification. This module reads and writes the head as bytes; it
 * does no file I/O. Reading treats the head as hostile: it checks the checksum, the version, and
 * the order and bounds of every range. */
#ifndef PROTO_MEMORY_LAYER_H
#define PROTO_MEMORY_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum {
	LAYER_VERSION = 1,
	LAYER_PAGE_BYTES = 4096,
	LAYER_ID_BYTES = 16,
	LAYER_RANGES_MAX = 4000,
	LAYER_HEADER_BYTES = 96,
	LAYER_RANGE_BYTES = 8,
	LAYER_HEAD_MAX = 32768, /* header and largest table, in whole pages */
};

/* Identifies a layer: a random number. Zeroes stand for the base under the lowest layer. */
struct layer_id {
	uint8_t bytes[LAYER_ID_BYTES];
};

struct layer_head {
	struct layer_id id, parent;
	uint64_t memory_bytes; /* of the whole guest */
	uint32_t data_crc;     /* CRC-32C of all pages in order */
	uint32_t range_count;
	struct {
		uint32_t first, count; /* pages */
	} ranges[LAYER_RANGES_MAX];
};

bool layer_id_equal(const struct layer_id *a, const struct layer_id *b);

/* Bytes of a head with this many ranges; the pages start there. */
uint64_t layer_head_bytes(uint32_t range_count);
uint64_t layer_data_pages(const struct layer_head *h);

/* Appends the head with its padding. 0 or -ENOMEM/-EMSGSIZE. */
int layer_head_write(const struct layer_head *h, struct buf *out);

/* Reads a head. data holds the first n bytes of a file: all of it, or LAYER_HEAD_MAX. file_bytes,
 * the size of the file, must match the table exactly. ERROR_BAD_SNAPSHOT, or ERROR_INCOMPATIBLE for
 * another version. */
int layer_head_read(
	const void *data, size_t n, uint64_t file_bytes, struct layer_head *ret, struct error *e);

#endif
