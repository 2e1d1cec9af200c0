#include "vmm/blk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "proto/virtio.h"

enum {
	QUEUE_SIZE = 256,
	SEGMENTS_MAX = VIRTIO_CHAIN_MAX - 2, /* of data, besides header and status */
	SEGMENT_BYTES_MAX = 1024 * 1024,
	REQUEST_BYTES_MAX = SEGMENTS_MAX * SEGMENT_BYTES_MAX, /* the most that one request makes a
							       * vCPU wait for */
	/* Ranges in one discard or write-zeroes request. An older version offered RANGES_MAX, and
	 * guests in its snapshots still use them. */
	RANGES_OFFERED = 1,
	RANGES_MAX = 32,
	RANGE_SECTORS_OFFERED = 32 * 1024, /* 16 MiB */
	RANGE_SECTORS_MAX = 4 * 1024 * 1024,
	PIECE_BYTES = 1024 * 1024, /* bytes of a range done between two checks of the batch */
	PHYSICAL_EXP = 3,	   /* 8 sectors: the block of the delta */
};

struct blk {
	struct virtio_device dev; /* first: the ops get a pointer to it */
	struct disk *disk;
	char serial[VIRTIO_BLK_ID_BYTES];
	/* Progress of the request that went back to the queue. */
	struct progress {
		uint16_t avail;	   /* its index in the available ring */
		unsigned ranges;   /* ranges done */
		uint64_t in_range; /* bytes done of the next range */
	} progress;
};

/* The request is not done, and the batch is over. */
enum { TO_BE_CONTINUED = 1 };

static struct blk *blk_of(struct virtio_device *dev)
{
	return (struct blk *)(void *)dev;
}

/* Makes an iovec array of n bytes of the segments, from byte `skip` on. Returns its length. */
static unsigned to_iovecs(const struct virtio_segment *s, unsigned count, uint64_t skip, uint64_t n,
	struct iovec *out)
{
	unsigned used = 0;

	for (unsigned i = 0; i < count && n; i++) {
		uint64_t part;

		if (skip >= s[i].bytes) {
			skip -= s[i].bytes;
			continue;
		}
		part = s[i].bytes - skip;
		if (part > n)
			part = n;
		out[used++] = (struct iovec){s[i].host + skip, part};
		n -= part;
		skip = 0;
	}
	return used;
}

static int sector_offset(uint64_t sector, uint64_t *ret)
{
	return __builtin_mul_overflow(sector, (uint64_t)DISK_SECTOR_BYTES, ret) ? -EINVAL : 0;
}

static int do_read(struct blk *b, const struct virtio_chain *c, uint64_t offset)
{
	struct iovec iov[VIRTIO_CHAIN_MAX];

	return disk_readv(
		b->disk, offset, iov, to_iovecs(c->in, c->in_count, 0, c->in_bytes - 1, iov));
}

static int do_write(struct blk *b, const struct virtio_chain *c, uint64_t offset)
{
	struct iovec iov[VIRTIO_CHAIN_MAX];

	return disk_writev(b->disk, offset, iov,
		to_iovecs(c->out, c->out_count, VIRTIO_BLK_HEADER_BYTES,
			c->out_bytes - VIRTIO_BLK_HEADER_BYTES, iov));
}

/* Pieces end at block boundaries, so the disk does the same as for the whole range. */
static int do_pieces(struct blk *b, uint32_t type, uint64_t offset, uint64_t bytes)
{
	uint64_t end = offset + bytes, at = offset + b->progress.in_range;

	while (at < end) {
		uint64_t stop = (at + PIECE_BYTES) / DISK_BLOCK_BYTES * DISK_BLOCK_BYTES;
		int r;

		if (virtio_batch_is_spent(&b->dev))
			return TO_BE_CONTINUED;
		if (stop > end)
			stop = end;
		r = type == VIRTIO_BLK_T_DISCARD ? disk_discard(b->disk, at, stop - at)
						 : disk_write_zeroes(b->disk, at, stop - at);
		if (r < 0)
			return r;
		virtio_batch_charge(&b->dev, stop - at);
		at = stop;
		b->progress.in_range = at - offset;
	}
	b->progress.in_range = 0;
	return 0;
}

static int do_range(struct blk *b, uint32_t type, const uint8_t *range)
{
	uint64_t sectors = get_le32(range + VIRTIO_BLK_RANGE_SECTORS), offset;
	uint32_t flags = get_le32(range + VIRTIO_BLK_RANGE_FLAGS);

	if (flags & ~(uint32_t)VIRTIO_BLK_RANGE_F_UNMAP || (flags && type == VIRTIO_BLK_T_DISCARD))
		return -EOPNOTSUPP;
	if (sectors > RANGE_SECTORS_MAX)
		return -EINVAL;
	if (sector_offset(get_le64(range + VIRTIO_BLK_RANGE_SECTOR), &offset) < 0)
		return -EINVAL;
	if (disk_is_read_only(b->disk))
		return -EROFS;
	if (!disk_range_is_valid(b->disk, offset, sectors * DISK_SECTOR_BYTES))
		return -EINVAL;
	return do_pieces(b, type, offset, sectors * DISK_SECTOR_BYTES);
}

/* Handles discard and write-zeroes. The list of ranges is copied before it is checked. */
static int do_ranges(struct blk *b, const struct virtio_chain *c, uint32_t type)
{
	uint8_t ranges[RANGES_MAX * VIRTIO_BLK_RANGE_BYTES];
	uint64_t n = c->out_bytes - VIRTIO_BLK_HEADER_BYTES;
	unsigned feature =
		type == VIRTIO_BLK_T_DISCARD ? VIRTIO_BLK_F_DISCARD : VIRTIO_BLK_F_WRITE_ZEROES;

	if (!virtio_has_feature(&b->dev, feature))
		return -EOPNOTSUPP;
	if (n == 0 || n > sizeof(ranges) || n % VIRTIO_BLK_RANGE_BYTES)
		return -EINVAL;
	(void)virtio_chain_read(c, VIRTIO_BLK_HEADER_BYTES, ranges, n); /* n bytes are there */
	for (; b->progress.ranges < n / VIRTIO_BLK_RANGE_BYTES; b->progress.ranges++) {
		int r = do_range(b, type, ranges + b->progress.ranges * VIRTIO_BLK_RANGE_BYTES);

		if (r != 0)
			return r;
	}
	return 0;
}

static int do_flush(struct blk *b)
{
	int r = disk_flush(b->disk);

	virtio_batch_charge(&b->dev, VIRTIO_BATCH_BYTES); /* the flush may have taken long */
	return r;
}

static int do_get_id(struct blk *b, const struct virtio_chain *c)
{
	uint64_t n = c->in_bytes - 1;

	if (n > sizeof(b->serial))
		n = sizeof(b->serial);
	(void)virtio_chain_write(c, 0, b->serial, n); /* n bytes of room are there */
	return 0;
}

static int do_request(struct blk *b, const struct virtio_chain *c)
{
	uint8_t header[VIRTIO_BLK_HEADER_BYTES];
	uint32_t type;
	uint64_t offset;

	(void)virtio_chain_read(c, 0, header, sizeof(header)); /* the caller checked */
	type = get_le32(header + VIRTIO_BLK_HEADER_TYPE);
	switch (type) {
	case VIRTIO_BLK_T_IN:
	case VIRTIO_BLK_T_OUT:
		if (c->in_bytes + c->out_bytes > REQUEST_BYTES_MAX + VIRTIO_BLK_HEADER_BYTES + 1)
			return -EINVAL;
		if (sector_offset(get_le64(header + VIRTIO_BLK_HEADER_SECTOR), &offset) < 0)
			return -EINVAL;
		return type == VIRTIO_BLK_T_IN ? do_read(b, c, offset) : do_write(b, c, offset);
	case VIRTIO_BLK_T_FLUSH:
		return do_flush(b);
	case VIRTIO_BLK_T_GET_ID:
		return do_get_id(b, c);
	case VIRTIO_BLK_T_DISCARD:
	case VIRTIO_BLK_T_WRITE_ZEROES:
		return do_ranges(b, c, type);
	default:
		return -EOPNOTSUPP;
	}
}

/* A request that went back to the queue is recognised by its place in the ring. */
static void begin_or_continue(struct blk *b, const struct virtio_queue *q)
{
	if (b->progress.avail != q->last_avail)
		b->progress = (struct progress){.avail = q->last_avail};
}

static void blk_notify(struct virtio_device *dev, unsigned queue)
{
	struct blk *b = blk_of(dev);
	struct virtio_chain c;

	while (virtio_queue_pop(dev, queue, &c) > 0) {
		uint8_t status;
		int r;

		if (c.out_bytes < VIRTIO_BLK_HEADER_BYTES || c.in_bytes < 1) {
			virtio_needs_reset(dev, "request without header or status");
			return;
		}
		begin_or_continue(b, &dev->queues[queue]);
		r = do_request(b, &c);
		if (r == TO_BE_CONTINUED) {
			virtio_queue_unpop(dev, queue);
			continue; /* the batch is over: the next pop returns 0 */
		}
		b->progress = (struct progress){0};
		status = r == 0		    ? VIRTIO_BLK_S_OK
			 : r == -EOPNOTSUPP ? VIRTIO_BLK_S_UNSUPP
					    : VIRTIO_BLK_S_IOERR;
		(void)virtio_chain_write(&c, c.in_bytes - 1, &status, 1); /* there is room */
		virtio_queue_push(dev, queue, c.head, (uint32_t)c.in_bytes);
	}
	virtio_queue_interrupt(dev, queue);
}

static uint64_t blk_features(struct virtio_device *dev)
{
	uint64_t f = UINT64_C(1) << VIRTIO_BLK_F_SIZE_MAX | UINT64_C(1) << VIRTIO_BLK_F_SEG_MAX |
		     UINT64_C(1) << VIRTIO_BLK_F_BLK_SIZE | UINT64_C(1) << VIRTIO_BLK_F_TOPOLOGY |
		     UINT64_C(1) << VIRTIO_BLK_F_FLUSH;

	if (disk_is_read_only(blk_of(dev)->disk))
		return f | UINT64_C(1) << VIRTIO_BLK_F_RO;
	return f | UINT64_C(1) << VIRTIO_BLK_F_DISCARD | UINT64_C(1) << VIRTIO_BLK_F_WRITE_ZEROES;
}

static void blk_reset(struct virtio_device *dev)
{
	blk_of(dev)->progress = (struct progress){0};
}

static size_t blk_config(struct virtio_device *dev, uint8_t *out, size_t max)
{
	static_assert((int)VIRTIO_BLK_CONFIG_BYTES <= (int)VIRTIO_CONFIG_MAX, "fits");
	uint64_t sectors = disk_bytes(blk_of(dev)->disk) / DISK_SECTOR_BYTES;

	memset(out, 0, VIRTIO_BLK_CONFIG_BYTES);
	put_le64(out + VIRTIO_BLK_CONFIG_CAPACITY, sectors);
	put_le32(out + VIRTIO_BLK_CONFIG_SIZE_MAX, SEGMENT_BYTES_MAX);
	put_le32(out + VIRTIO_BLK_CONFIG_SEG_MAX, SEGMENTS_MAX);
	put_le32(out + VIRTIO_BLK_CONFIG_BLK_SIZE, DISK_SECTOR_BYTES);
	out[VIRTIO_BLK_CONFIG_PHYSICAL_EXP] = PHYSICAL_EXP;
	put_le16(out + VIRTIO_BLK_CONFIG_MIN_IO, 1 << PHYSICAL_EXP);
	put_le16(out + VIRTIO_BLK_CONFIG_NUM_QUEUES, 1);
	put_le32(out + VIRTIO_BLK_CONFIG_DISCARD_SECTORS, RANGE_SECTORS_OFFERED);
	put_le32(out + VIRTIO_BLK_CONFIG_DISCARD_SEGMENTS, RANGES_OFFERED);
	put_le32(out + VIRTIO_BLK_CONFIG_DISCARD_ALIGN, 1 << PHYSICAL_EXP);
	put_le32(out + VIRTIO_BLK_CONFIG_WRITE_ZEROES_SECTORS, RANGE_SECTORS_OFFERED);
	put_le32(out + VIRTIO_BLK_CONFIG_WRITE_ZEROES_SEGMENTS, RANGES_OFFERED);
	out[VIRTIO_BLK_CONFIG_WRITE_ZEROES_UNMAP] = 1;
	return VIRTIO_BLK_CONFIG_BYTES;
}

/* Saves the capacity, because the guest knows it. */
static int blk_save(struct virtio_device *dev, struct buf *out)
{
	return buf_add_le64(out, disk_bytes(blk_of(dev)->disk));
}

/* A disk that has grown since the save is announced when the VM resumes. A smaller one is
 * refused. */
static int blk_load(struct virtio_device *dev, struct reader *in)
{
	uint64_t saved = reader_le64(in), now = disk_bytes(blk_of(dev)->disk);

	if (in->bad || now < saved)
		return -EINVAL;
	if (now > saved) {
		dev->config_generation++;
		dev->interrupt_status |= VIRTIO_MMIO_INT_CONFIG;
	}
	return 0;
}

static void blk_destroy(struct virtio_device *dev)
{
	struct blk *b = blk_of(dev);

	virtio_done(dev);
	disk_close(b->disk);
	free(b);
}

static const struct virtio_ops blk_ops = {
	.id = VIRTIO_ID_BLOCK,
	.name = "blk",
	.queue_count = 1,
	.queue_size_max = {QUEUE_SIZE},
	.features = blk_features,
	.notify = blk_notify,
	.reset = blk_reset,
	.config = blk_config,
	.save = blk_save,
	.load = blk_load,
	.destroy = blk_destroy,
};

int blk_create(const struct guest_memory *memory, struct disk *disk, const char *serial,
	void (*raise_irq)(void *), void *irq_opaque, struct virtio_device **ret, struct error *e)
{
	struct blk *b = calloc(1, sizeof(*b));

	if (!b) {
		disk_close(disk);
		return error_set_errno(e, ERROR_NO_SPACE, ENOMEM, "cannot create the block device");
	}
	virtio_init(&b->dev, &blk_ops, memory, raise_irq, irq_opaque);
	b->disk = disk;
	memcpy(b->serial, serial, strnlen(serial, sizeof(b->serial)));
	*ret = &b->dev;
	return 0;
}

/* --- the disk's operations, under the device's lock --- */

int blk_flush(struct virtio_device *dev)
{
	int r;

	virtio_lock(dev);
	r = disk_flush(blk_of(dev)->disk);
	virtio_unlock(dev);
	return r;
}

int blk_check(struct virtio_device *dev, struct error *e)
{
	int r;

	virtio_lock(dev);
	r = disk_check(blk_of(dev)->disk, e);
	virtio_unlock(dev);
	return r;
}

int blk_freeze(struct virtio_device *dev, int delta_fd, struct error *e)
{
	int r;

	virtio_lock(dev);
	r = disk_freeze(blk_of(dev)->disk, delta_fd, e);
	virtio_unlock(dev);
	return r;
}

int blk_flatten(struct virtio_device *dev, unsigned below, int out_fd, struct error *e)
{
	int r;

	virtio_lock(dev);
	r = disk_flatten(blk_of(dev)->disk, below, out_fd, e);
	virtio_unlock(dev);
	return r;
}

void blk_thaw(struct virtio_device *dev)
{
	virtio_lock(dev);
	disk_thaw(blk_of(dev)->disk);
	virtio_unlock(dev);
}

/* #calls snapshot: sync_file_range */
void blk_write_back(struct virtio_device *dev)
{
	int fd;

	virtio_lock(dev);
	fd = disk_top_fd(blk_of(dev)->disk);
	virtio_unlock(dev);
	/* Only a hint. A failure here shows at the next fdatasync, too. */
	if (fd >= 0)
		(void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

int blk_sync_frozen(struct virtio_device *dev)
{
	struct disk *d = blk_of(dev)->disk;
	int fd, r = 0;

	do {
		virtio_lock(dev);
		fd = disk_unsynced_fd(d);
		virtio_unlock(dev);
		if (fd < 0)
			break;
		do
			r = fdatasync(fd) < 0 ? -errno : 0;
		while (r == -EINTR);
		virtio_lock(dev);
		disk_set_synced(d, fd, r);
		virtio_unlock(dev);
	} while (r == 0);
	return r;
}

unsigned blk_frozen_count(struct virtio_device *dev)
{
	unsigned n;

	virtio_lock(dev);
	n = disk_frozen_count(blk_of(dev)->disk);
	virtio_unlock(dev);
	return n;
}

int blk_merge_frozen(
	struct virtio_device *dev, int out_fd, struct disk_merged **ret, struct error *e)
{
	return disk_merge_frozen(blk_of(dev)->disk, out_fd, ret, e);
}

void blk_replace_frozen(struct virtio_device *dev, struct disk_merged *m)
{
	virtio_lock(dev);
	disk_replace_frozen(blk_of(dev)->disk, m);
	virtio_unlock(dev);
}
