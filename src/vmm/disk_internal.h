/* What disk.c (opening, reading, writing) and disk_freeze.c (layers) share: a delta's layout and
 * the stack of layers. */
#ifndef VMM_DISK_INTERNAL_H
#define VMM_DISK_INTERNAL_H

#include <assert.h>

#include "vmm/disk.h"

/* The layout of a delta, see docs/disk-format.md. */
enum {
	FORMAT_VERSION = 1,
	HEADER_BYTES = 4096,
	MAP_OFFSET = HEADER_BYTES,
	MAP_BYTES = 2 * 1024 * 1024,
	DATA_OFFSET = MAP_OFFSET + MAP_BYTES,
	MAP_PAGE_BYTES = 4096, /* unit in which the map is written back */
	MAP_PAGES = MAP_BYTES / MAP_PAGE_BYTES,
	CRC_OFFSET = HEADER_BYTES - 4,
	LAYERS_MAX = DISK_FROZEN_MAX + 1,
};

static_assert(DISK_MAX_BYTES / DISK_BLOCK_BYTES / 8 == MAP_BYTES, "one bit per block");

struct layer {
	int fd;
	uint8_t *map;	 /* MAP_BYTES of the file, mapped privately: writes stay ours */
	uint64_t blocks; /* bits from here on do not count */
	bool unsynced;	 /* frozen, and a crash of the host may still lose part of it */
	bool lost;	 /* the host failed to write part of it: see disk_check */
};

struct disk {
	int base_fd;
	uint64_t base_bytes;
	uint64_t bytes;
	unsigned layer_count;
	struct layer layers[LAYERS_MAX]; /* lowest first; the last one is the top if writable */
	bool writable;
	/* State of the top: */
	bool data_dirty;   /* blocks were written since the last fdatasync */
	bool map_dirty;	   /* dirty_pages is not empty */
	bool header_dirty; /* the file has no header, or one with another capacity */
	uint64_t dirty_pages[MAP_PAGES / 64];
	struct disk_stats stats;
};

enum { LAYER_BASE = -1 };

static inline uint64_t blocks_of(uint64_t bytes)
{
	return (bytes + DISK_BLOCK_BYTES - 1) / DISK_BLOCK_BYTES;
}

static inline off_t data_position(uint64_t block)
{
	return (off_t)(DATA_OFFSET + block * DISK_BLOCK_BYTES);
}

static inline struct layer *top_layer(struct disk *d)
{
	return &d->layers[d->layer_count - 1];
}

/* Returns the topmost of the lowest `layers` layers that has the block, or LAYER_BASE. */
int disk_find_layer(const struct disk *d, unsigned layers, uint64_t block);
/* Returns how many bytes from offset on, at most n, lie in that same layer. */
uint64_t disk_run_length(
	const struct disk *d, unsigned layers, uint64_t offset, uint64_t n, int layer);

/* Opens an existing delta. l->fd belongs to the layer from the start. */
int disk_open_layer(struct layer *l, uint64_t *ret_bytes, struct error *e);
void disk_layer_done(struct layer *l);

/* Puts a writable delta on top. On failure the descriptor is closed and the disk is as before. */
int disk_push_top(struct disk *d, int fd, bool may_exist, struct error *e);

/* Writes the top's header and map where they have changed. After a crash, either may be there or
 * not. */
int disk_write_head(struct disk *d);
int disk_write_header(int fd, uint64_t bytes);

#endif
