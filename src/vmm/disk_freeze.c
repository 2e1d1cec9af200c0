/* The layers of a disk: freezing the top, flattening and merging. Merging keeps files sparse. */
#include "vmm/disk_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

static bool is_full(int r)
{
	return r == -ENOSPC || r == -EDQUOT || r == -EFBIG;
}

static int refuse_freeze(const struct disk *d, int delta_fd, struct error *e)
{
	if (!d->writable)
		return error_set(e, ERROR_INTERNAL, EROFS, "a read-only disk cannot be frozen");
	if (delta_fd >= 0 && d->layer_count == LAYERS_MAX)
		return error_set(e, ERROR_LIMIT, EMLINK,
			"a disk has at most %d frozen deltas; flatten it", DISK_FROZEN_MAX);
	return disk_check(d, e);
}

int disk_freeze(struct disk *d, int delta_fd, struct error *e)
{
	struct layer *frozen;
	int r = refuse_freeze(d, delta_fd, e);

	if (r == 0) {
		r = disk_write_head(d);
		if (r < 0)
			(void)error_set_errno(e, is_full(r) ? ERROR_NO_SPACE : ERROR_INTERNAL, -r,
				"cannot write the disk delta"); /* only to fill e */
	}
	if (r < 0) {
		if (delta_fd >= 0)
			(void)close(delta_fd); /* nothing was written */
		return r;
	}
	frozen = top_layer(d);
	if (delta_fd >= 0)
		r = disk_push_top(d, delta_fd, false, e);
	else
		d->writable = false;
	if (r < 0)
		return r;
	frozen->unsynced = true;
	d->data_dirty = false;
	return 0;
}

void disk_thaw(struct disk *d)
{
	if (d->writable) {
		disk_layer_done(top_layer(d));
		d->layer_count--;
	}
	d->writable = d->data_dirty = true;
	d->map_dirty = d->header_dirty = false;
	top_layer(d)->unsynced = false;
}

int disk_unsynced_fd(const struct disk *d)
{
	for (unsigned i = 0; i < d->layer_count; i++)
		if (d->layers[i].unsynced)
			return d->layers[i].fd;
	return -1;
}

void disk_set_synced(struct disk *d, int fd, int result)
{
	for (unsigned i = 0; i < d->layer_count; i++)
		if (d->layers[i].fd == fd) {
			d->layers[i].unsynced = result < 0;
			d->layers[i].lost |= result < 0;
		}
}

int disk_top_fd(const struct disk *d)
{
	return d->writable ? d->layers[d->layer_count - 1].fd : -1;
}

unsigned disk_frozen_count(const struct disk *d)
{
	return d->layer_count - d->writable;
}

static bool is_zero(const uint8_t *block)
{
	return block[0] == 0 && memcmp(block, block + 1, DISK_BLOCK_BYTES - 1) == 0;
}

/* Writes whole blocks. Blocks of zeroes stay holes. */
static int write_sparse(int to, const uint8_t *blocks, size_t n, off_t position)
{
	for (size_t at = 0; at < n; at += DISK_BLOCK_BYTES) {
		size_t begin = at;
		int r;

		while (at < n && !is_zero(blocks + at))
			at += DISK_BLOCK_BYTES;
		r = at > begin ? fd_pwrite_full(
					 to, blocks + begin, at - begin, position + (off_t)begin)
			       : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

/* Returns how many bytes from the position on, at most n, are a hole of the file. Whole blocks.
 *
 * #calls snapshot: lseek pread64 ftruncate close */
static uint64_t hole_length(int fd, off_t position, uint64_t n)
{
	off_t data = lseek(fd, position, SEEK_DATA);

	if (data < 0) /* a hole up to the end, or a file system that cannot tell */
		return errno == ENXIO ? n : 0;
	if ((uint64_t)(data - position) >= n)
		return n;
	return (uint64_t)(data - position) / DISK_BLOCK_BYTES * DISK_BLOCK_BYTES;
}

/* Copies whole blocks to the same place in `to`, which is empty there. Holes and zeroes stay
 * holes. */
static int copy_blocks(int from, int to, off_t position, uint64_t n, uint8_t *buffer, size_t size)
{
	while (n) {
		uint64_t part = hole_length(from, position, n);
		int r = 0;

		if (!part) {
			part = n < size ? n : size;
			r = fd_pread_full(from, buffer, part, position);
			r = r < 0 ? r : write_sparse(to, buffer, part, position);
		}
		if (r < 0)
			return r;
		position += (off_t)part;
		n -= part;
	}
	return 0;
}

/* What flatten() takes: the layers from number `from` on, below number `end`. */
struct span {
	unsigned from, end;
};

/* Returns the topmost layer that has the block. True if it is one of those to be taken. */
static bool find_taken(const struct disk *d, struct span s, uint64_t block, int *ret_layer)
{
	*ret_layer = disk_find_layer(d, s.end, block);
	return *ret_layer >= (int)s.from;
}

/* Copies every block that is to be taken to its place in `to`, and makes `to` reach them all. */
static int flatten_blocks(const struct disk *d, struct span s, int to)
{
	const size_t size = 256 * 1024;
	_cleanup_free_ uint8_t *buffer = malloc(size);
	uint64_t offset = 0, end = blocks_of(d->bytes) * DISK_BLOCK_BYTES, run, reach = 0;

	if (!buffer)
		return -ENOMEM;
	for (; offset < end; offset += run) {
		int layer, r;
		bool taken = find_taken(d, s, offset / DISK_BLOCK_BYTES, &layer);

		run = disk_run_length(d, s.end, offset, end - offset, layer);
		if (!taken)
			continue;
		r = copy_blocks(
			d->layers[layer].fd, to, (off_t)(DATA_OFFSET + offset), run, buffer, size);
		if (r < 0)
			return r;
		reach = offset + run;
	}
	return ftruncate(to, (off_t)(DATA_OFFSET + reach)) < 0 ? -errno : 0;
}

static int flatten_map(const struct disk *d, struct span s, int to)
{
	int layer;

	for (uint64_t page = 0; page < MAP_PAGES; page++) {
		uint64_t first = page * MAP_PAGE_BYTES * 8;
		uint8_t map[MAP_PAGE_BYTES] = {0};
		bool any = false;

		if (first >= blocks_of(d->bytes))
			break;
		for (uint64_t i = 0; i < MAP_PAGE_BYTES * 8; i++) {
			if (!find_taken(d, s, first + i, &layer))
				continue;
			map[i / 8] |= (uint8_t)(1 << i % 8);
			any = true;
		}
		if (any) {
			int r = fd_pwrite_full(
				to, map, sizeof(map), (off_t)(MAP_OFFSET + page * MAP_PAGE_BYTES));

			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int flatten(const struct disk *d, struct span s, int out_fd, struct error *e)
{
	int r = disk_check(d, e);

	if (r < 0)
		return r;
	r = flatten_blocks(d, s, out_fd);
	if (r == 0 && fdatasync(out_fd) < 0)
		r = -errno;
	r = r < 0 ? r : flatten_map(d, s, out_fd);
	r = r < 0 ? r : disk_write_header(out_fd, d->bytes);
	if (r == 0 && fdatasync(out_fd) < 0)
		r = -errno;
	if (r < 0)
		return error_set_errno(e, is_full(r) ? ERROR_NO_SPACE : ERROR_INTERNAL, -r,
			"cannot write a flattened disk delta");
	return 0;
}

int disk_flatten(struct disk *d, unsigned below, int out_fd, struct error *e)
{
	return flatten(d, (struct span){below, d->layer_count}, out_fd, e);
}

struct disk_merged {
	struct layer layer;
	unsigned count; /* of the lowest layers that it replaces */
};

void disk_merged_free(struct disk_merged *m)
{
	if (!m)
		return;
	disk_layer_done(&m->layer);
	free(m);
}

int disk_merge_frozen(const struct disk *d, int out_fd, struct disk_merged **ret, struct error *e)
{
	struct disk_merged *m = calloc(1, sizeof(*m));
	uint64_t bytes;
	int r;

	if (!m) {
		(void)close(out_fd); /* nothing was written */
		return error_set_errno(e, ERROR_NO_SPACE, ENOMEM, "cannot merge disk deltas");
	}
	m->layer.fd = out_fd;
	m->count = disk_frozen_count(d);
	r = flatten(d, (struct span){0, m->count}, out_fd, e);
	if (r == 0)
		r = disk_open_layer(&m->layer, &bytes, e);
	if (r < 0)
		disk_merged_free(m);
	else
		*ret = m;
	return r;
}

void disk_replace_frozen(struct disk *d, struct disk_merged *m)
{
	for (unsigned i = 0; i < m->count; i++)
		disk_layer_done(&d->layers[i]);
	d->layers[0] = m->layer;
	memmove(&d->layers[1], &d->layers[m->count],
		(d->layer_count - m->count) * sizeof(d->layers[0]));
	d->layer_count -= m->count - 1;
	free(m);
}
