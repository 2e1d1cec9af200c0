/* Fuzzes the virtio transport and queues in front of the entropy and block devices: the input is a
 * list of what a driver does, register accesses and memory writes of any kind among it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/log.h"
#include "../unit/fake_driver.h"
#include "vmm/blk.h"
#include "vmm/rng.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEVICE_RNG, DEVICE_BLK, DEVICE_BLK_READ_ONLY, DEVICES };

enum {
	DO_WRITE_REGISTER,
	DO_READ,
	DO_WRITE_MEMORY,
	DO_START,
	DO_DESC,
	DO_OFFER,
	DO_AVAIL_IDX,
	DO_REQUEST,
	DO_SAVE_AND_LOAD,
	DO_NOTHING, /* its number stands in the corpus */
	DO_ODD_WRITE,
	DO_EVENT_IDX,
	DOS,
};

static struct fake_driver f;

static void make_device(unsigned kind)
{
	static const uint8_t image[8192] = {1, 2, 3};
	int base, delta = -1, r;
	struct disk *d;

	if (kind == DEVICE_RNG) {
		r = rng_create(&f.memory, fake_raise_irq, &f, &f.dev, NULL);
		assert(r == 0);
		return;
	}
	base = memfd_create("base", MFD_CLOEXEC);
	r = fd_pwrite_full(base, image, sizeof(image), 0);
	assert(r == 0);
	if (kind == DEVICE_BLK)
		delta = memfd_create("delta", MFD_CLOEXEC);
	r = disk_open(base, NULL, 0, delta, 32 << 20, &d, NULL);
	assert(r == 0);
	r = blk_create(&f.memory, d, "fuzz", fake_raise_irq, &f, &f.dev, NULL);
	assert(r == 0);
}

/* Addresses that mostly hit memory: small ones, the rings, the end. */
static gpa_t address(struct reader *in)
{
	uint8_t kind = reader_u8(in);
	uint16_t low = reader_le16(in);

	switch (kind % 6) {
	case 0:
		return low;
	case 1:
		return 0x10000 + low;
	case 2:
		return FAKE_MEMORY_BYTES - low;
	case 3:
		return UINT64_MAX - low;
	default:
		return FAKE_HEAP + low;
	}
}

static uint32_t length(struct reader *in)
{
	uint8_t kind = reader_u8(in);

	return kind < 250 ? kind : kind < 253 ? 4096u * kind : UINT32_MAX - kind;
}

static void write_memory(struct reader *in)
{
	gpa_t at = address(in);
	size_t n = reader_u8(in);
	const uint8_t *p;

	if (n > reader_left(in))
		n = reader_left(in);
	p = reader_bytes(in, n);
	if (p)
		(void)guest_memory_write(&f.memory, at, p, n); /* or it misses memory */
}

/* Keeps the fake driver's own view within memory, whatever the registers say. */
static void start(struct reader *in)
{
	uint8_t flags = reader_u8(in);
	uint64_t features = UINT64_C(1) << VIRTIO_F_VERSION_1;

	if (flags & 1)
		features = FAKE_FEATURES;
	if (f.dev->ops->id == VIRTIO_ID_BLOCK && flags & 2)
		features |= 1 << VIRTIO_BLK_F_DISCARD | 1 << VIRTIO_BLK_F_WRITE_ZEROES;
	fake_start(&f, features, (uint16_t)(1 << (flags >> 4) % 9));
}

static void desc(struct reader *in)
{
	uint8_t i = reader_u8(in), flags = reader_u8(in), next = reader_u8(in);
	gpa_t at = address(in);

	if (f.queues[0].size)
		fake_desc(&f, 0, i, at, length(in), flags % 8, next);
}

/* A block request that is well-formed but for its numbers. */
static void request(struct reader *in)
{
	uint8_t type = reader_u8(in), sector = reader_u8(in), range[16] = {0};
	uint32_t n = 512u * (reader_u8(in) % 20);
	uint16_t write = type % 16 == VIRTIO_BLK_T_IN ? VIRTQ_DESC_F_WRITE : 0;
	uint8_t header[16] = {type % 16, 0, 0, 0, 0, 0, 0, 0, sector};

	if (f.queues[0].size < 4)
		return;
	if (type % 16 == VIRTIO_BLK_T_DISCARD || type % 16 == VIRTIO_BLK_T_WRITE_ZEROES) {
		range[0] = reader_u8(in);
		range[8] = reader_u8(in);
		range[9] = reader_u8(in); /* up to 32 MiB: several batches */
		n = 16;
	}
	(void)guest_memory_write(&f.memory, FAKE_HEAP, header, sizeof(header)); /* inside */
	(void)guest_memory_write(&f.memory, FAKE_HEAP + 64, range, sizeof(range));
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, VIRTQ_DESC_F_NEXT, n ? 1 : 2);
	fake_desc(&f, 0, 1, FAKE_HEAP + 64, n, VIRTQ_DESC_F_NEXT | write, 2);
	fake_desc(&f, 0, 2, FAKE_HEAP + 16, 1, VIRTQ_DESC_F_WRITE, 0);
	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
}

static void save_and_load(struct reader *in)
{
	struct buf b = BUF_INIT(65536);
	struct reader saved;
	uint16_t at = reader_le16(in);
	uint8_t value = reader_u8(in);
	int r = virtio_save(f.dev, &b);

	assert(r == 0);
	if (at % 2) /* damaged */
		b.data[b.start + at % buf_len(&b)] ^= value;
	saved = reader_of(buf_head(&b), buf_len(&b));
	fake_write(&f, VIRTIO_MMIO_STATUS, 0);
	if (virtio_load(f.dev, &saved) == 0)
		virtio_resume(f.dev);
	buf_done(&b);
}

static void odd_access(struct reader *in, bool write)
{
	static const unsigned sizes[] = {1, 2, 3, 4, 5, 8};
	uint64_t offset = reader_le16(in) % (VIRTIO_MMIO_SIZE + 16);
	unsigned n = sizes[reader_u8(in) % 6];
	uint8_t b[8];

	if (write) {
		reader_copy(in, b, sizeof(b));
		virtio_mmio_write(f.dev, offset, b, n);
	} else {
		virtio_mmio_read(f.dev, offset, b, n);
	}
}

static void step(struct reader *in)
{
	uint8_t what = reader_u8(in);
	const struct fake_queue *q = &f.queues[0];
	uint64_t at;

	switch (what % DOS) {
	case DO_WRITE_REGISTER:
		at = 4u * (reader_u8(in) % 64);
		fake_write(&f, at, what & 0x80 ? reader_le32(in) : reader_u8(in));
		break;
	case DO_READ:
		odd_access(in, false);
		break;
	case DO_ODD_WRITE:
		odd_access(in, true);
		break;
	case DO_WRITE_MEMORY:
		write_memory(in);
		break;
	case DO_START:
		start(in);
		break;
	case DO_DESC:
		desc(in);
		break;
	case DO_OFFER:
		if (q->size)
			fake_offer(&f, 0, reader_u8(in));
		fake_kick(&f, 0);
		break;
	case DO_AVAIL_IDX:
		if (q->size)
			fake_store16(&f, q->avail + VIRTQ_AVAIL_IDX, reader_le16(in));
		fake_kick(&f, 0);
		break;
	case DO_REQUEST:
		request(in);
		break;
	case DO_SAVE_AND_LOAD:
		save_and_load(in);
		break;
	case DO_EVENT_IDX:
		if (q->size)
			fake_store16(
				&f, q->avail + VIRTQ_AVAIL_RING + 2 * q->size, reader_le16(in));
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader in = reader_of(data, size);

	log_set_level(LOG_LEVEL_ERROR);
	fake_init(&f);
	make_device(reader_u8(&in) % DEVICES);
	while (reader_left(&in) && !in.bad)
		step(&in);
	fake_done(&f);
	return 0;
}
