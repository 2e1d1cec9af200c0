#include "vmm/disk_internal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/crc32c.h"
#include "base/fd.h"

static const char magic[8] = "MAYFLYD1";

static bool map_test(const struct layer *l, uint64_t block)
{
	return block < l->blocks && l->map[block / 8] >> (block % 8) & 1;
}

static void map_set(struct disk *d, uint64_t block)
{
	struct layer *top = top_layer(d);
	uint64_t page = block / 8 / MAP_PAGE_BYTES;

	if (map_test(top, block))
		return;
	top->map[block / 8] |= (uint8_t)(1 << block % 8);
	d->dirty_pages[page / 64] |= UINT64_C(1) << page % 64;
	d->map_dirty = true;
}

/* --- opening --- */

void disk_layer_done(struct layer *l)
{
	if (l->map)
		(void)munmap(l->map, MAP_BYTES); /* our own mapping: cannot fail */
	if (l->fd >= 0)
		(void)close(l->fd); /* all that matters was flushed */
	*l = (struct layer){.fd = -1};
}

static int map_layer(struct layer *l, int fd, struct error *e)
{
	int flags = MAP_PRIVATE | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
	void *p = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, flags, fd, fd < 0 ? 0 : MAP_OFFSET);

	if (p == MAP_FAILED)
		return error_set_errno(
			e, ERROR_NO_SPACE, errno, "cannot map the map of a disk delta");
	l->map = p;
	return 0;
}

static int bad_delta(struct error *e, const char *why)
{
	return error_set(e, ERROR_BAD_SNAPSHOT, EINVAL,
		"disk delta %s; restore it from a copy, or start from the template", why);
}

static int check_header(const uint8_t *h, uint64_t *ret_bytes, struct error *e)
{
	uint64_t bytes = get_le64(h + 16);

	if (memcmp(h, magic, sizeof(magic)) != 0)
		return bad_delta(e, "has no header (never flushed, or not a delta)");
	if (get_le32(h + CRC_OFFSET) != crc32c(0, h, CRC_OFFSET))
		return bad_delta(e, "has a damaged header (checksum)");
	if (get_le32(h + 8) != FORMAT_VERSION)
		return error_set(e, ERROR_INCOMPATIBLE, EINVAL,
			"disk delta of format version %u, this program reads version %d",
			get_le32(h + 8), FORMAT_VERSION);
	if (get_le32(h + 12) != DISK_BLOCK_BYTES || get_le64(h + 24) != MAP_OFFSET ||
		get_le64(h + 32) != MAP_BYTES || get_le64(h + 40) != DATA_OFFSET)
		return bad_delta(e, "has a header of another layout");
	if (bytes == 0 || bytes > DISK_MAX_BYTES || bytes % DISK_SECTOR_BYTES)
		return bad_delta(e, "has an impossible capacity");
	*ret_bytes = bytes;
	return 0;
}

/* Returns the first block from `first` on whose bit is set, or `end`. */
static uint64_t map_next(const struct layer *l, uint64_t first, uint64_t end)
{
	uint64_t b = first;

	while (b < end) {
		if (b % 64 == 0 && get_le64(l->map + b / 8) == 0)
			b += 64;
		else if (l->map[b / 8] >> (b % 8) & 1)
			return b;
		else
			b++;
	}
	return end;
}

/* Checks that no bit is set for a block beyond the end of the file. Reads only the end of the
 * map. */
static int check_extent(const struct layer *l, uint64_t file_bytes, struct error *e)
{
	uint64_t held = (file_bytes - DATA_OFFSET) / DISK_BLOCK_BYTES;

	return map_next(l, held, l->blocks) < l->blocks ? bad_delta(e, "is truncated") : 0;
}

int disk_open_layer(struct layer *l, uint64_t *ret_bytes, struct error *e)
{
	uint8_t header[HEADER_BYTES];
	struct stat st;
	int r;

	if (fstat(l->fd, &st) < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot examine a disk delta");
	if (!S_ISREG(st.st_mode) || st.st_size < DATA_OFFSET)
		return bad_delta(e, "is truncated");
	r = fd_pread_full(l->fd, header, sizeof(header), 0);
	if (r < 0)
		return error_set_errno(e, ERROR_BAD_SNAPSHOT, -r, "cannot read a disk delta");
	r = check_header(header, ret_bytes, e);
	if (r < 0)
		return r;
	l->blocks = blocks_of(*ret_bytes);
	r = map_layer(l, l->fd, e);
	return r < 0 ? r : check_extent(l, (uint64_t)st.st_size, e);
}

static int check_fits(const struct disk *d, uint64_t bytes, const char *what, struct error *e)
{
	if (bytes > d->bytes)
		return error_set(e, ERROR_LIMIT, EINVAL,
			"a disk of %llu bytes is smaller than its %s of %llu bytes",
			(unsigned long long)d->bytes, what, (unsigned long long)bytes);
	return 0;
}

static int open_lowers(struct disk *d, struct error *e)
{
	uint64_t bytes;

	for (unsigned i = 0; i < d->layer_count; i++) {
		int r = disk_open_layer(&d->layers[i], &bytes, e);

		r = r < 0 ? r : check_fits(d, bytes, "delta", e);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Clears the bits of blocks beyond the previous capacity. Writes only where a bit is set, so a
 * clean map stays shared with the file. */
static void map_clear(struct layer *l, uint64_t first, uint64_t end)
{
	for (uint64_t b = first; (b = map_next(l, b, end)) < end; b++)
		l->map[b / 8] &= (uint8_t) ~(1 << b % 8);
}

void disk_forget(struct disk *d, uint64_t offset, uint64_t n)
{
	for (unsigned i = 0; i < d->layer_count && !d->writable; i++) {
		struct layer *l = &d->layers[i];
		uint64_t first = offset / DISK_BLOCK_BYTES, end = first + n / DISK_BLOCK_BYTES;

		map_clear(l, first, end < l->blocks ? end : l->blocks);
	}
}

int disk_push_top(struct disk *d, int fd, bool may_exist, struct error *e)
{
	struct layer l = {.fd = fd};
	uint64_t bytes = 0;
	struct stat st;
	int r = 0;

	if (fstat(fd, &st) < 0)
		r = error_set_errno(e, ERROR_INTERNAL, errno, "cannot examine a disk delta");
	else if (st.st_size == 0)
		r = map_layer(&l, -1, e);
	else if (!may_exist)
		r = error_set(
			e, ERROR_EXISTS, EEXIST, "the file of a fresh disk delta is not empty");
	else
		r = disk_open_layer(&l, &bytes, e);
	r = r < 0 ? r : check_fits(d, bytes, "delta", e);
	if (r < 0) {
		disk_layer_done(&l);
		return r;
	}
	map_clear(&l, l.blocks, blocks_of(d->bytes));
	l.blocks = blocks_of(d->bytes);
	d->layers[d->layer_count++] = l;
	d->writable = true;
	d->header_dirty = bytes != d->bytes;
	return 0;
}

/* #calls start: lseek pread64 */
static int open_base(struct disk *d, struct error *e)
{
	off_t end = lseek(d->base_fd, 0, SEEK_END);

	if (end < 0)
		return error_set_errno(e, ERROR_BAD_IMAGE, errno, "cannot examine the disk image");
	d->base_bytes = (uint64_t)end;
	return check_fits(d, d->base_bytes, "image", e);
}

static int open_all(struct disk *d, int delta_fd, struct error *e)
{
	int r;

	if (d->bytes == 0 || d->bytes % DISK_SECTOR_BYTES || d->bytes > DISK_MAX_BYTES) {
		if (delta_fd >= 0)
			(void)close(delta_fd); /* nothing was written */
		return error_set(e, ERROR_LIMIT, EINVAL,
			"a disk of %llu bytes: must be a multiple of 512, at most 64 GB",
			(unsigned long long)d->bytes);
	}
	r = open_base(d, e);
	r = r < 0 ? r : open_lowers(d, e);
	if (delta_fd < 0)
		return r;
	if (r < 0) {
		(void)close(delta_fd); /* nothing was written */
		return r;
	}
	return disk_push_top(d, delta_fd, true, e);
}

static void close_all(int base_fd, const int *lower_fds, unsigned lower_count, int delta_fd)
{
	(void)close(base_fd); /* nothing was written to any of them */
	for (unsigned i = 0; i < lower_count; i++)
		(void)close(lower_fds[i]);
	if (delta_fd >= 0)
		(void)close(delta_fd);
}

int disk_open(int base_fd, const int *lower_fds, unsigned lower_count, int delta_fd, uint64_t bytes,
	struct disk **ret, struct error *e)
{
	struct disk *d = lower_count <= DISK_LOWER_MAX ? calloc(1, sizeof(*d)) : NULL;
	int r;

	if (!d) {
		close_all(base_fd, lower_fds, lower_count, delta_fd);
		return lower_count > DISK_LOWER_MAX
			       ? error_set(e, ERROR_LIMIT, EINVAL,
					 "a disk of %u deltas, at most %d", lower_count,
					 DISK_LOWER_MAX)
			       : error_set_errno(e, ERROR_NO_SPACE, ENOMEM, "cannot open a disk");
	}
	d->base_fd = base_fd;
	d->bytes = bytes;
	for (unsigned i = 0; i < lower_count; i++)
		d->layers[d->layer_count++] = (struct layer){.fd = lower_fds[i]};
	r = open_all(d, delta_fd, e);
	if (r < 0) {
		disk_close(d);
		return r;
	}
	*ret = d;
	return 0;
}

void disk_close(struct disk *d)
{
	if (!d)
		return;
	for (unsigned i = 0; i < d->layer_count; i++)
		disk_layer_done(&d->layers[i]);
	(void)close(d->base_fd); /* read-only */
	free(d);
}

uint64_t disk_bytes(const struct disk *d)
{
	return d->bytes;
}

bool disk_is_read_only(const struct disk *d)
{
	return !d->writable;
}

struct disk_stats disk_stats(const struct disk *d)
{
	return d->stats;
}

/* A damaged map may have bits set beyond the capacity. They are not looked at. */
uint64_t disk_delta_bytes(const struct disk *d)
{
	uint64_t n = 0, blocks = blocks_of(d->bytes);

	if (!d->writable)
		return 0;
	for (uint64_t b = 0; b < blocks; b += 64) {
		uint64_t word = get_le64(d->layers[d->layer_count - 1].map + b / 8);

		if (blocks - b < 64)
			word &= (UINT64_C(1) << (blocks - b)) - 1;
		n += (uint64_t)__builtin_popcountll(word);
	}
	return n * DISK_BLOCK_BYTES;
}

/* --- walking the caller's iovecs --- */

/* The part of an iovec array that is still to be filled or written. */
struct cursor {
	const struct iovec *iov;
	unsigned count;
	size_t skip; /* bytes of iov[0] already used */
};

/* Takes the next n bytes off the cursor as an array of their own and returns its length. The cursor
 * must hold n bytes. */
static unsigned cursor_take(struct cursor *c, uint64_t n, struct iovec *out)
{
	unsigned count = 0;

	while (n) {
		size_t left = c->iov->iov_len - c->skip;
		size_t part = left < n ? left : (size_t)n;

		if (part)
			out[count++] = (struct iovec){(uint8_t *)c->iov->iov_base + c->skip, part};
		n -= part;
		c->skip += part;
		if (c->skip == c->iov->iov_len && c->count) {
			c->iov++;
			c->count--;
			c->skip = 0;
		}
	}
	return count;
}

/* Maps an error of a read or write to one that the guest's driver may see. */
static int io_error(int r)
{
	return r == 0 || r == -ENOSPC ? r : r == -EDQUOT ? -ENOSPC : -EIO;
}

static void zero_vector(const struct iovec *iov, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		memset(iov[i].iov_base, 0, iov[i].iov_len);
}

/* Returns the bytes of all pieces, or 0 unless the request is whole sectors within the disk. */
static uint64_t request_bytes(
	const struct disk *d, uint64_t offset, const struct iovec *iov, unsigned count)
{
	uint64_t n = 0;

	if (count > DISK_IOVECS_MAX)
		return 0;
	for (unsigned i = 0; i < count; i++)
		if (__builtin_add_overflow(n, iov[i].iov_len, &n))
			return 0;
	if ((offset | n) % DISK_SECTOR_BYTES || n > d->bytes || offset > d->bytes - n)
		return 0;
	return n;
}

static int count_error(struct disk *d, int r)
{
	if (r < 0) {
		d->stats.errors++;
		d->stats.no_space += r == -ENOSPC;
	}
	return r;
}

/* --- reading --- */

int disk_find_layer(const struct disk *d, unsigned layers, uint64_t block)
{
	int i = (int)layers;

	while (--i >= 0)
		if (map_test(&d->layers[i], block))
			return i;
	return LAYER_BASE;
}

static int find_layer(const struct disk *d, uint64_t block)
{
	return disk_find_layer(d, d->layer_count, block);
}

uint64_t disk_run_length(
	const struct disk *d, unsigned layers, uint64_t offset, uint64_t n, int layer)
{
	uint64_t block = offset / DISK_BLOCK_BYTES;
	uint64_t len = DISK_BLOCK_BYTES - offset % DISK_BLOCK_BYTES;

	while (len < n && disk_find_layer(d, layers, ++block) == layer)
		len += DISK_BLOCK_BYTES;
	return len < n ? len : n;
}

/* #calls vcpu: preadv */
static int read_base(struct disk *d, uint64_t offset, uint64_t n, struct cursor *c)
{
	struct iovec iov[DISK_IOVECS_MAX];
	uint64_t inside = offset < d->base_bytes ? d->base_bytes - offset : 0;
	unsigned count;
	int r;

	if (inside > n)
		inside = n;
	count = cursor_take(c, inside, iov);
	r = io_error(fd_preadv_full(d->base_fd, iov, count, (off_t)offset));
	if (r < 0)
		return r;
	count = cursor_take(c, n - inside, iov);
	zero_vector(iov, count);
	return 0;
}

static int read_run(struct disk *d, uint64_t offset, uint64_t n, int layer, struct cursor *c)
{
	struct iovec iov[DISK_IOVECS_MAX];
	unsigned count;

	if (layer == LAYER_BASE)
		return read_base(d, offset, n, c);
	count = cursor_take(c, n, iov);
	return io_error(
		fd_preadv_full(d->layers[layer].fd, iov, count, (off_t)(DATA_OFFSET + offset)));
}

int disk_readv(struct disk *d, uint64_t offset, const struct iovec *iov, unsigned count)
{
	struct cursor c = {.iov = iov, .count = count};
	uint64_t n = request_bytes(d, offset, iov, count);

	if (!n)
		return -EINVAL;
	d->stats.reads++;
	d->stats.read_bytes += n;
	while (n) {
		int layer = find_layer(d, offset / DISK_BLOCK_BYTES);
		uint64_t run = disk_run_length(d, d->layer_count, offset, n, layer);
		int r = read_run(d, offset, run, layer, &c);

		if (r < 0)
			return count_error(d, r);
		offset += run;
		n -= run;
	}
	return 0;
}

int disk_read(struct disk *d, uint64_t offset, void *out, uint32_t n)
{
	struct iovec iov = {out, n};

	return disk_readv(d, offset, &iov, 1);
}

/* --- writing --- */

/* True if the block can be written without reading its old content: it is written whole, or the top
 * delta has it already. */
static bool is_direct(struct disk *d, uint64_t offset, uint64_t n)
{
	return (offset % DISK_BLOCK_BYTES == 0 && n >= DISK_BLOCK_BYTES) ||
	       map_test(top_layer(d), offset / DISK_BLOCK_BYTES);
}

/* Returns how many bytes from offset on, at most n, can be written in place. */
static uint64_t direct_length(struct disk *d, uint64_t offset, uint64_t n)
{
	uint64_t len = 0;

	while (len < n && is_direct(d, offset + len, n - len))
		len += DISK_BLOCK_BYTES - (offset + len) % DISK_BLOCK_BYTES;
	return len < n ? len : n;
}

/* #calls vcpu: pwritev */
static int write_direct(struct disk *d, uint64_t offset, uint64_t n, struct cursor *c)
{
	struct iovec iov[DISK_IOVECS_MAX];
	unsigned count = cursor_take(c, n, iov);
	int r;

	d->data_dirty = true;
	r = io_error(fd_pwritev_full(top_layer(d)->fd, iov, count, (off_t)(DATA_OFFSET + offset)));
	if (r < 0)
		return r;
	for (uint64_t b = offset / DISK_BLOCK_BYTES; b * DISK_BLOCK_BYTES < offset + n; b++)
		map_set(d, b);
	return 0;
}

/* Copies a block into the top delta and changes n bytes of it. */
static int write_merged(struct disk *d, uint64_t offset, uint64_t n, struct cursor *c)
{
	uint8_t block[DISK_BLOCK_BYTES];
	uint64_t start = offset - offset % DISK_BLOCK_BYTES;
	struct iovec whole = {block, sizeof(block)}, iov[DISK_IOVECS_MAX];
	struct cursor old = {.iov = &whole, .count = 1}, new = {.iov = &whole, .count = 1};
	uint8_t *p = block + (offset - start);
	unsigned count;
	int r = read_run(d, start, sizeof(block), find_layer(d, start / DISK_BLOCK_BYTES), &old);

	if (r < 0)
		return r;
	count = cursor_take(c, n, iov);
	for (unsigned i = 0; i < count; i++) {
		memcpy(p, iov[i].iov_base, iov[i].iov_len);
		p += iov[i].iov_len;
	}
	return write_direct(d, start, sizeof(block), &new);
}

int disk_writev(struct disk *d, uint64_t offset, const struct iovec *iov, unsigned count)
{
	struct cursor c = {.iov = iov, .count = count};
	uint64_t n = request_bytes(d, offset, iov, count);

	if (!d->writable)
		return -EROFS;
	if (!n)
		return -EINVAL;
	d->stats.writes++;
	d->stats.written_bytes += n;
	while (n) {
		uint64_t part = direct_length(d, offset, n);
		int r;

		if (part) {
			r = write_direct(d, offset, part, &c);
		} else {
			part = DISK_BLOCK_BYTES - offset % DISK_BLOCK_BYTES;
			if (part > n)
				part = n;
			r = write_merged(d, offset, part, &c);
		}
		if (r < 0)
			return count_error(d, r);
		offset += part;
		n -= part;
	}
	return 0;
}

int disk_write(struct disk *d, uint64_t offset, const void *data, uint32_t n)
{
	struct iovec iov = {(void *)(uintptr_t)data, n}; /* only read, never written */

	return disk_writev(d, offset, &iov, 1);
}

/* --- holes --- */

static const uint8_t zeroes[DISK_BLOCK_BYTES];

/* Makes the file reach up to block `end`, so that holes read as zeroes.
 *
 * #calls vcpu: fstat ftruncate
 * #calls glibc vcpu: newfstatat */
static int extend_file(struct disk *d, uint64_t end)
{
	struct stat st;

	if (fstat(top_layer(d)->fd, &st) < 0)
		return -EIO;
	if (st.st_size >= data_position(end))
		return 0;
	d->data_dirty = true;
	return ftruncate(top_layer(d)->fd, data_position(end)) < 0 ? -EIO : 0;
}

/* Turns whole blocks of the top delta's file into zeroes.
 *
 * #calls vcpu: fallocate(PUNCH_HOLE) pwritev */
static int punch(struct disk *d, uint64_t first, uint64_t end)
{
	int fd = top_layer(d)->fd, r = extend_file(d, end);

	if (r < 0)
		return r;
	d->data_dirty = true;
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, data_position(first),
		    (off_t)((end - first) * DISK_BLOCK_BYTES)) == 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return errno == ENOSPC ? -ENOSPC : -EIO;
	for (uint64_t b = first; b < end && r == 0; b++)
		r = fd_pwrite_full(fd, zeroes, sizeof(zeroes), data_position(b));
	return r == 0 || r == -ENOSPC ? r : -EIO;
}

/* True if this block may hold something other than zeroes. */
static bool has_content(const struct disk *d, uint64_t block)
{
	return find_layer(d, block) != LAYER_BASE || block * DISK_BLOCK_BYTES < d->base_bytes;
}

static int zero_blocks(struct disk *d, uint64_t block, uint64_t end)
{
	while (block < end) {
		uint64_t first = block;
		int r;

		while (block < end && has_content(d, block))
			block++;
		if (first == block) {
			block++;
			continue;
		}
		r = punch(d, first, block);
		if (r < 0)
			return r;
		for (uint64_t b = first; b < block; b++)
			map_set(d, b);
	}
	return 0;
}

/* Zeroes a part of one block. */
static int zero_part(struct disk *d, uint64_t offset, uint64_t n)
{
	if (!n || !has_content(d, offset / DISK_BLOCK_BYTES))
		return 0;
	return disk_write(d, offset, zeroes, (uint32_t)n);
}

bool disk_range_is_valid(const struct disk *d, uint64_t offset, uint64_t n)
{
	return n && (offset | n) % DISK_SECTOR_BYTES == 0 && n <= d->bytes &&
	       offset <= d->bytes - n;
}

int disk_write_zeroes(struct disk *d, uint64_t offset, uint64_t n)
{
	uint64_t head, tail, end = offset + n;
	int r;

	if (!d->writable)
		return -EROFS;
	if (!disk_range_is_valid(d, offset, n))
		return -EINVAL;
	head = -offset % DISK_BLOCK_BYTES; /* up to the first whole block */
	if (head > n)
		head = n;
	/* A partial block at the end of the disk counts as whole: nothing lies behind it. */
	tail = end == d->bytes ? 0 : end % DISK_BLOCK_BYTES;
	r = zero_part(d, offset, head);
	if (r < 0 || head == n)
		return r;
	r = count_error(d, zero_blocks(d, blocks_of(offset), blocks_of(end - tail)));
	return r < 0 ? r : zero_part(d, end - tail, tail);
}

int disk_discard(struct disk *d, uint64_t offset, uint64_t n)
{
	uint64_t block = blocks_of(offset), end = (offset + n) / DISK_BLOCK_BYTES;

	if (!d->writable)
		return -EROFS;
	if (!disk_range_is_valid(d, offset, n))
		return -EINVAL;
	while (block < end) {
		uint64_t first = block;
		int r;

		while (block < end && map_test(top_layer(d), block))
			block++;
		if (first == block) {
			block++;
			continue;
		}
		r = count_error(d, punch(d, first, block));
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- flushing --- */

int disk_write_header(int fd, uint64_t bytes)
{
	uint8_t h[HEADER_BYTES] = {0};

	memcpy(h, magic, sizeof(magic));
	put_le32(h + 8, FORMAT_VERSION);
	put_le32(h + 12, DISK_BLOCK_BYTES);
	put_le64(h + 16, bytes);
	put_le64(h + 24, MAP_OFFSET);
	put_le64(h + 32, MAP_BYTES);
	put_le64(h + 40, DATA_OFFSET);
	put_le32(h + CRC_OFFSET, crc32c(0, h, CRC_OFFSET));
	return fd_pwrite_full(fd, h, sizeof(h), 0);
}

static int write_map(struct disk *d)
{
	const struct layer *top = top_layer(d);

	for (uint64_t page = 0; page < MAP_PAGES; page++) {
		uint64_t bit = UINT64_C(1) << page % 64;
		off_t at = (off_t)(page * MAP_PAGE_BYTES);
		int r;

		if (!(d->dirty_pages[page / 64] & bit))
			continue;
		r = fd_pwrite_full(top->fd, top->map + at, MAP_PAGE_BYTES, MAP_OFFSET + at);
		if (r < 0)
			return r;
		d->dirty_pages[page / 64] &= ~bit;
	}
	return 0;
}

int disk_write_head(struct disk *d)
{
	int r = 0;

	if (!d->map_dirty && !d->header_dirty)
		return 0;
	r = extend_file(d, 0);
	r = r < 0 ? r : write_map(d);
	if (r == 0 && d->header_dirty)
		r = disk_write_header(top_layer(d)->fd, d->bytes);
	if (r < 0)
		return r;
	d->map_dirty = d->header_dirty = false;
	d->data_dirty = true;
	return 0;
}

int disk_check(const struct disk *d, struct error *e)
{
	for (unsigned i = 0; i < d->layer_count; i++)
		if (d->layers[i].lost)
			return error_set(e, ERROR_HOST, EIO,
				"the host could not write what the sandbox wrote to its disk, and "
				"some of it is lost: copy what you need out of it, see what ails "
				"the "
				"host's disk, and make the sandbox again");
	return 0;
}

/* An interrupted fdatasync may be retried. Any other failure has lost data.
 *
 * #calls vcpu snapshot main: fdatasync */
static int sync_layer(struct layer *l)
{
	int r;

	do
		r = fdatasync(l->fd) < 0 ? -errno : 0;
	while (r == -EINTR);
	l->lost |= r < 0;
	return r;
}

static int sync_data(struct disk *d)
{
	int r = d->data_dirty ? sync_layer(top_layer(d)) : 0;

	if (r == 0)
		d->data_dirty = false;
	return r;
}

/* A flush also covers what the guest wrote before a freeze. */
static int sync_frozen(struct disk *d)
{
	for (unsigned i = 0; i < d->layer_count; i++) {
		int r = d->layers[i].unsynced ? sync_layer(&d->layers[i]) : 0;

		if (r < 0)
			return r;
		d->layers[i].unsynced = false;
	}
	return 0;
}

int disk_flush(struct disk *d)
{
	int r = disk_check(d, NULL);

	if (r == 0)
		r = sync_frozen(d);
	if (r == 0 && d->writable) {
		d->stats.flushes++;
		r = sync_data(d);
		r = r < 0 ? r : disk_write_head(d);
		r = r < 0 ? r : sync_data(d);
	}
	return count_error(d, io_error(r));
}
