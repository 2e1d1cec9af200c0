/* The file `hot` of a snapshot: its working set. These are the pages that a guest touches between
 * the restore and the end of its first command.
 *
 * A file holds a head (header and table), padded to whole pages, then the pages of the table's
 * ranges in order. docs/snapshot-format.md is the specification. This module reads and writes the
 * head as bytes; it does no file I/O. The file is only a hint, and untrusted: reading checks the
 * checksum, the version, and the order and bounds of every range. It reports only whether the file
 * is usable. */
#ifndef PROTO_HOT_FILE_H
#define PROTO_HOT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	HOT_VERSION = 2,
	HOT_PAGE_BYTES = 4096,
	HOT_RANGES_MAX = 8192,
	HOT_PAGES_MAX = 32768, /* 128 MiB */
	HOT_HEADER_BYTES = 56,
	HOT_RANGE_BYTES = 12,
	HOT_HEAD_MAX = 102400, /* header and largest table, in whole pages */
};

struct hot_range {
	uint32_t first, count; /* pages */
	bool written;	       /* the guest wrote to them; otherwise it only read them */
};

struct hot_head {
	uint64_t memory_bytes; /* of the whole guest */
	uint32_t data_crc;     /* CRC-32C of all pages in order */
	uint32_t range_count;
	struct hot_range ranges[HOT_RANGES_MAX]; /* ascending; they may touch */
};

/* Bytes of a head with this many ranges; the pages start there. */
uint64_t hot_head_bytes(uint32_t range_count);
uint64_t hot_data_pages(const struct hot_head *h);

/* Appends the head with its padding. 0 or -ENOMEM. */
int hot_head_write(const struct hot_head *h, struct buf *out);

/* How long the head is that begins with these n bytes: HOT_HEAD_MAX at most, 0 if they are none. */
size_t hot_head_length(const void *data, size_t n);

/* Reads a head. data holds the first n bytes of a file: all of it, or as many as hot_head_length()
 * says. file_bytes, the size of the file, must match the table exactly. 0, or -EBADMSG for any
 * defect. */
int hot_head_read(const void *data, size_t n, uint64_t file_bytes, struct hot_head *ret);

#endif
