/* virtio-blk: requests of every kind, in every framing, well-formed and not. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/log.h"
#include "fake_driver.h"
#include "vmm/blk.h"

enum {
	SECTORS = 2048,
	HEADER = FAKE_HEAP,
	STATUS = FAKE_HEAP + 64,
	DATA = FAKE_HEAP + 0x10000,
	BLK_FEATURES = 1 << VIRTIO_BLK_F_DISCARD | 1 << VIRTIO_BLK_F_WRITE_ZEROES |
		       1 << VIRTIO_BLK_F_FLUSH,
};

static struct fake_driver f;
static struct disk *disk; /* of f.dev */

static uint8_t base_byte(size_t i)
{
	return (uint8_t)(i * 7 + i / 512);
}

static void open_sectors(bool writable, uint64_t sectors)
{
	int base = memfd_create("base", MFD_CLOEXEC), delta = -1;
	static uint8_t image[SECTORS / 2 * 512];

	for (size_t i = 0; i < sizeof(image); i++)
		image[i] = base_byte(i);
	assert_int_equal(fd_pwrite_full(base, image, sizeof(image), 0), 0);
	if (writable)
		delta = memfd_create("delta", MFD_CLOEXEC);
	assert_int_equal(disk_open(base, NULL, 0, delta, sectors * 512, &disk, NULL), 0);
	assert_int_equal(blk_create(&f.memory, disk, "serial-0123456789abcdef", fake_raise_irq, &f,
				 &f.dev, NULL),
		0);
}

static void open_device(bool writable)
{
	open_sectors(writable, SECTORS);
}

static int setup(void **state)
{
	log_set_level(LOG_LEVEL_ERROR);
	fake_init(&f);
	open_device(true);
	fake_start(&f, FAKE_FEATURES | BLK_FEATURES, 0);
	return 0;
}

static int setup_read_only(void **state)
{
	log_set_level(LOG_LEVEL_ERROR);
	fake_init(&f);
	open_device(false);
	fake_start(&f, FAKE_FEATURES, 0);
	return 0;
}

static int teardown(void **state)
{
	fake_done(&f);
	return 0;
}

static void put_header(uint32_t type, uint64_t sector)
{
	uint8_t *h = fake_at(&f, HEADER);

	put_le32(h, type);
	put_le32(h + 4, 0);
	put_le64(h + 8, sector);
}

/* Sends the chain at descriptor 0; the status byte, or -1 when none was written. */
static int submit(uint32_t *ret_len)
{
	uint8_t *status = fake_at(&f, STATUS);
	uint32_t id, len;

	*status = 0xff;
	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
	if (!fake_used(&f, 0, &id, &len))
		return -1;
	if (ret_len)
		*ret_len = len;
	return *status;
}

/* Header, one data segment (none with n = 0), status. */
static int request(uint32_t type, uint64_t sector, uint32_t n)
{
	uint16_t write =
		type == VIRTIO_BLK_T_IN || type == VIRTIO_BLK_T_GET_ID ? VIRTQ_DESC_F_WRITE : 0;

	put_header(type, sector);
	fake_desc(&f, 0, 0, HEADER, 16, VIRTQ_DESC_F_NEXT, n ? 1 : 2);
	fake_desc(&f, 0, 1, DATA, n, VIRTQ_DESC_F_NEXT | write, 2);
	fake_desc(&f, 0, 2, STATUS, 1, VIRTQ_DESC_F_WRITE, 0);
	return submit(NULL);
}

static void config_space(void **state)
{
	uint8_t b[8];

	virtio_mmio_read(f.dev, VIRTIO_MMIO_CONFIG, b, 8);
	assert_int_equal(get_le64(b), SECTORS);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_CONFIG + VIRTIO_BLK_CONFIG_SEG_MAX), 128);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_CONFIG + VIRTIO_BLK_CONFIG_BLK_SIZE), 512);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_CONFIG + VIRTIO_BLK_CONFIG_DISCARD_ALIGN), 8);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_CONFIG + 56), 1);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_DEVICE_ID), 2);
}

static void reads_and_writes(void **state)
{
	uint8_t *data = fake_at(&f, DATA);
	uint32_t len;

	assert_int_equal(request(VIRTIO_BLK_T_IN, 3, 4096), VIRTIO_BLK_S_OK);
	for (size_t i = 0; i < 4096; i++)
		assert_int_equal(data[i], base_byte(3 * 512 + i));
	memset(data, 0x5a, 1024);
	assert_int_equal(request(VIRTIO_BLK_T_OUT, 9, 1024), VIRTIO_BLK_S_OK);
	memset(data, 0, 4096);
	put_header(VIRTIO_BLK_T_IN, 8);
	fake_desc(&f, 0, 0, HEADER, 16, VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 1, DATA, 2048, VIRTQ_DESC_F_NEXT | VIRTQ_DESC_F_WRITE, 2);
	fake_desc(&f, 0, 2, STATUS, 1, VIRTQ_DESC_F_WRITE, 0);
	assert_int_equal(submit(&len), VIRTIO_BLK_S_OK);
	assert_int_equal(len, 2049);
	for (size_t i = 0; i < 2048; i++)
		assert_int_equal(data[i], i < 512 || i >= 1536 ? base_byte(8 * 512 + i) : 0x5a);
	assert_int_equal(request(VIRTIO_BLK_T_FLUSH, 0, 0), VIRTIO_BLK_S_OK);
	assert_int_equal(disk_delta_bytes(disk), 4096);
	assert_int_equal(disk_stats(disk).flushes, 1);
}

static void odd_framing(void **state)
{
	uint8_t *data = fake_at(&f, DATA);

	/* The header in three pieces, the last one with the first data bytes; data in odd pieces.
	 */
	memset(data, 0x77, 1024);
	put_header(VIRTIO_BLK_T_OUT, 16);
	memcpy(fake_at(&f, DATA - 6), fake_at(&f, HEADER + 10), 6);
	fake_desc(&f, 0, 0, HEADER, 3, VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 1, HEADER + 3, 7, VIRTQ_DESC_F_NEXT, 2);
	fake_desc(&f, 0, 2, DATA - 6, 6 + 100, VIRTQ_DESC_F_NEXT, 3);
	fake_desc(&f, 0, 3, DATA + 100, 924, VIRTQ_DESC_F_NEXT, 4);
	fake_desc(&f, 0, 4, STATUS, 1, VIRTQ_DESC_F_WRITE, 0);
	assert_int_equal(submit(NULL), VIRTIO_BLK_S_OK);
	/* Reading back: the status byte is the last one of the last data segment. */
	memset(data, 0, 1024);
	put_header(VIRTIO_BLK_T_IN, 16);
	fake_desc(&f, 0, 0, HEADER, 16, VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 1, DATA, 1, VIRTQ_DESC_F_NEXT | VIRTQ_DESC_F_WRITE, 2);
	fake_desc(&f, 0, 2, DATA + 1, 1024, VIRTQ_DESC_F_WRITE, 0);
	data[1024] = 0xff;
	assert_int_equal(submit(NULL), 0xff); /* not where the helper looks */
	assert_int_equal(data[1024], VIRTIO_BLK_S_OK);
	for (size_t i = 0; i < 1024; i++)
		assert_int_equal(data[i], 0x77);
}

static void largest_request(void **state)
{
	const gpa_t table = FAKE_HEAP + 0x4000;
	uint8_t *data = fake_at(&f, DATA);

	put_header(VIRTIO_BLK_T_IN, 0);
	for (uint16_t i = 0; i < 130; i++) {
		struct virtq_desc d = {DATA + (i - 1) * UINT64_C(4096), 4096,
			VIRTQ_DESC_F_NEXT | VIRTQ_DESC_F_WRITE, (uint16_t)(i + 1)};

		if (i == 0)
			d = (struct virtq_desc){HEADER, 16, VIRTQ_DESC_F_NEXT, 1};
		if (i == 129)
			d = (struct virtq_desc){STATUS, 1, VIRTQ_DESC_F_WRITE, 0};
		memcpy(fake_at(&f, table + i * sizeof(d)), &d, sizeof(d));
	}
	fake_desc(&f, 0, 0, table, 130 * 16, VIRTQ_DESC_F_INDIRECT, 0);
	assert_int_equal(submit(NULL), VIRTIO_BLK_S_OK);
	for (size_t i = 0; i < 128 * 4096; i++)
		assert_int_equal(data[i], base_byte(i));
}

/* The device says how much of one request it takes: a vCPU waits until it is done. */
static void larger_than_a_request(void **state)
{
	const gpa_t table = FAKE_HEAP + 0x4000;
	uint32_t size_max = fake_read(&f, VIRTIO_MMIO_CONFIG + VIRTIO_BLK_CONFIG_SIZE_MAX);
	uint32_t seg_max = fake_read(&f, VIRTIO_MMIO_CONFIG + VIRTIO_BLK_CONFIG_SEG_MAX);

	assert_true(size_max > 0 && size_max <= FAKE_MEMORY_BYTES / 2);
	put_header(VIRTIO_BLK_T_IN, 0);
	for (uint16_t i = 0; i < seg_max + 2; i++) {
		struct virtq_desc d = {DATA, size_max + 512, VIRTQ_DESC_F_NEXT | VIRTQ_DESC_F_WRITE,
			(uint16_t)(i + 1)};

		if (i == 0)
			d = (struct virtq_desc){HEADER, 16, VIRTQ_DESC_F_NEXT, 1};
		if (i == seg_max + 1)
			d = (struct virtq_desc){STATUS, 1, VIRTQ_DESC_F_WRITE, 0};
		memcpy(fake_at(&f, table + i * sizeof(d)), &d, sizeof(d));
	}
	fake_desc(&f, 0, 0, table, (seg_max + 2) * 16, VIRTQ_DESC_F_INDIRECT, 0);
	assert_int_equal(submit(NULL), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_IN, 0, 512), VIRTIO_BLK_S_OK);
}

static void identification(void **state)
{
	assert_int_equal(request(VIRTIO_BLK_T_GET_ID, 0, 20), VIRTIO_BLK_S_OK);
	assert_memory_equal(fake_at(&f, DATA), "serial-0123456789abc", 20);
	memset(fake_at(&f, DATA), 0, 20);
	assert_int_equal(request(VIRTIO_BLK_T_GET_ID, 0, 4), VIRTIO_BLK_S_OK);
	assert_memory_equal(fake_at(&f, DATA), "seri\0", 5);
}

static void out_of_range_is_an_error(void **state)
{
	assert_int_equal(request(VIRTIO_BLK_T_IN, SECTORS, 512), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_IN, SECTORS - 1, 1024), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_OUT, SECTORS, 512), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_OUT, UINT64_MAX, 512), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_IN, UINT64_MAX / 512, 512), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_IN, UINT64_MAX / 512 + 1, 512), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_IN, UINT64_C(1) << 55, 512), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_IN, 0, 513), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_OUT, 0, 100), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_OUT, 0, 0), VIRTIO_BLK_S_IOERR);
	assert_int_equal(disk_stats(disk).errors, 0);
	assert_false(fake_status(&f) & VIRTIO_STATUS_NEEDS_RESET);
}

static void unknown_types_are_unsupported(void **state)
{
	assert_int_equal(request(2, 0, 512), VIRTIO_BLK_S_UNSUPP);
	assert_int_equal(request(UINT32_MAX, 0, 512), VIRTIO_BLK_S_UNSUPP);
}

static void read_only_disk(void **state)
{
	uint64_t features;

	fake_write(&f, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 0);
	features = fake_read(&f, VIRTIO_MMIO_DEVICE_FEATURES);
	assert_true(features & 1 << VIRTIO_BLK_F_RO);
	assert_false(features & (1 << VIRTIO_BLK_F_DISCARD | 1 << VIRTIO_BLK_F_WRITE_ZEROES));
	assert_int_equal(request(VIRTIO_BLK_T_IN, 0, 512), VIRTIO_BLK_S_OK);
	assert_int_equal(request(VIRTIO_BLK_T_OUT, 0, 512), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_DISCARD, 0, 16), VIRTIO_BLK_S_UNSUPP);
	assert_int_equal(request(VIRTIO_BLK_T_FLUSH, 0, 0), VIRTIO_BLK_S_OK);
}

static void put_range(unsigned i, uint64_t sector, uint32_t sectors, uint32_t flags)
{
	uint8_t *p = fake_at(&f, DATA + i * UINT64_C(16));

	put_le64(p, sector);
	put_le32(p + 8, sectors);
	put_le32(p + 12, flags);
}

static void discard_and_write_zeroes(void **state)
{
	uint8_t *data = fake_at(&f, DATA);

	memset(data, 1, 16 * 512);
	assert_int_equal(request(VIRTIO_BLK_T_OUT, 0, 16 * 512), VIRTIO_BLK_S_OK);
	put_range(0, 0, 8, 0);
	assert_int_equal(request(VIRTIO_BLK_T_DISCARD, 0, 16), VIRTIO_BLK_S_OK);
	put_range(0, 9, 2, 0);
	put_range(1, 12, 1, VIRTIO_BLK_RANGE_F_UNMAP);
	assert_int_equal(request(VIRTIO_BLK_T_WRITE_ZEROES, 0, 32), VIRTIO_BLK_S_OK);
	assert_int_equal(request(VIRTIO_BLK_T_IN, 0, 16 * 512), VIRTIO_BLK_S_OK);
	for (unsigned s = 0; s < 16; s++)
		assert_int_equal(data[s * 512], s < 8 || s == 9 || s == 10 || s == 12 ? 0 : 1);
}

static void bad_ranges(void **state)
{
	put_range(0, 0, 8, 0);
	assert_int_equal(request(VIRTIO_BLK_T_DISCARD, 0, 0), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_DISCARD, 0, 17), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_DISCARD, 0, 33 * 16), VIRTIO_BLK_S_IOERR);
	put_range(0, SECTORS, 1, 0);
	assert_int_equal(request(VIRTIO_BLK_T_DISCARD, 0, 16), VIRTIO_BLK_S_IOERR);
	put_range(0, UINT64_MAX, UINT32_MAX, 0);
	assert_int_equal(request(VIRTIO_BLK_T_WRITE_ZEROES, 0, 16), VIRTIO_BLK_S_IOERR);
	put_range(0, UINT64_MAX / 512, 2, 0);
	assert_int_equal(request(VIRTIO_BLK_T_WRITE_ZEROES, 0, 16), VIRTIO_BLK_S_IOERR);
	put_range(0, 0, 0, 0);
	assert_int_equal(request(VIRTIO_BLK_T_WRITE_ZEROES, 0, 16), VIRTIO_BLK_S_IOERR);
	put_range(0, 0, 8, VIRTIO_BLK_RANGE_F_UNMAP);
	assert_int_equal(request(VIRTIO_BLK_T_DISCARD, 0, 16), VIRTIO_BLK_S_UNSUPP);
	put_range(0, 0, 8, 2);
	assert_int_equal(request(VIRTIO_BLK_T_WRITE_ZEROES, 0, 16), VIRTIO_BLK_S_UNSUPP);
}

static void small_ranges_are_offered(void **state)
{
	static const unsigned limits[] = {
		VIRTIO_BLK_CONFIG_DISCARD_SECTORS, VIRTIO_BLK_CONFIG_WRITE_ZEROES_SECTORS};

	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(fake_read(&f, VIRTIO_MMIO_CONFIG + limits[i]), 32 * 1024);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_CONFIG + VIRTIO_BLK_CONFIG_DISCARD_SEGMENTS), 1);
}

/* One batch only, where fake_kick does all of them. */
static void notify_once(void)
{
	uint8_t queue[4] = {0};

	(void)virtio_mmio_write(f.dev, VIRTIO_MMIO_QUEUE_NOTIFY, queue, sizeof(queue));
}

/* Offers the request and lets the device do one batch after the other; how many it took. */
static unsigned batches(uint32_t type, unsigned ranges)
{
	uint32_t id, len;
	unsigned n = 1;

	put_header(type, 0);
	fake_desc(&f, 0, 0, HEADER, 16, VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 1, DATA, ranges * 16, VIRTQ_DESC_F_NEXT, 2);
	fake_desc(&f, 0, 2, STATUS, 1, VIRTQ_DESC_F_WRITE, 0);
	*(uint8_t *)fake_at(&f, STATUS) = 0xff;
	fake_offer(&f, 0, 0);
	notify_once();
	while (!fake_used(&f, 0, &id, &len)) {
		assert_int_equal(*(uint8_t *)fake_at(&f, STATUS), 0xff);
		(void)virtio_work(f.dev); /* whether there is more shows above */
		n++;
		assert_true(n < 10000);
	}
	return n;
}

enum { LARGE_MB = 256, LARGE_SECTORS = LARGE_MB * 2048 };

/* The largest range that a driver may name, whatever it was offered. */
enum { RANGE_MAX_SECTORS = 4 * 1024 * 1024, HUGE_SECTORS = RANGE_MAX_SECTORS + 8 };

static int setup_with(uint64_t sectors)
{
	int base = memfd_create("base", MFD_CLOEXEC);

	log_set_level(LOG_LEVEL_ERROR);
	fake_init(&f);
	assert_int_equal(ftruncate(base, (off_t)sectors * 512), 0);
	assert_int_equal(disk_open(base, NULL, 0, memfd_create("delta", MFD_CLOEXEC), sectors * 512,
				 &disk, NULL),
		0);
	assert_int_equal(blk_create(&f.memory, disk, "large", fake_raise_irq, &f, &f.dev, NULL), 0);
	fake_start(&f, FAKE_FEATURES | BLK_FEATURES, 0);
	return 0;
}

static int setup_large(void **state)
{
	return setup_with(LARGE_SECTORS);
}

static int setup_huge(void **state)
{
	return setup_with(HUGE_SECTORS);
}

static void the_largest_range_is_bounded(void **state)
{
	put_range(0, 0, RANGE_MAX_SECTORS, 0);
	assert_int_equal(request(VIRTIO_BLK_T_DISCARD, 0, 16), VIRTIO_BLK_S_OK);
	put_range(0, 0, RANGE_MAX_SECTORS + 1, 0);
	assert_int_equal(request(VIRTIO_BLK_T_DISCARD, 0, 16), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_WRITE_ZEROES, 0, 16), VIRTIO_BLK_S_IOERR);
}

/* One request over the whole disk, 32 times: each batch does its 4 MiB, and no more. */
static void long_requests_take_many_batches(void **state)
{
	const unsigned each = LARGE_MB * 1024 * 1024 / VIRTIO_BATCH_BYTES;

	for (unsigned i = 0; i < 32; i++)
		put_range(i, 0, LARGE_SECTORS, 0);
	assert_in_range(batches(VIRTIO_BLK_T_WRITE_ZEROES, 1), each, each + 2);
	assert_int_equal(disk_delta_bytes(disk), (uint64_t)LARGE_SECTORS * 512);
	assert_in_range(batches(VIRTIO_BLK_T_DISCARD, 32), 32 * each, 33 * each);
	assert_int_equal(*(uint8_t *)fake_at(&f, STATUS), VIRTIO_BLK_S_OK);
}

/* What is put off is put off as a whole: no part of it is in the saved state. */
static void an_unfinished_request_is_saved_as_offered(void **state)
{
	struct buf b = BUF_INIT(65536);
	uint8_t *data = fake_at(&f, DATA);
	struct reader saved;
	uint32_t id, len;

	memset(data, 7, 4096);
	assert_int_equal(request(VIRTIO_BLK_T_OUT, LARGE_SECTORS - 8, 4096), VIRTIO_BLK_S_OK);
	put_range(0, 1, LARGE_SECTORS - 1, 0);
	put_header(VIRTIO_BLK_T_WRITE_ZEROES, 0);
	fake_desc(&f, 0, 0, HEADER, 16, VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 1, DATA, 16, VIRTQ_DESC_F_NEXT, 2);
	fake_desc(&f, 0, 2, STATUS, 1, VIRTQ_DESC_F_WRITE, 0);
	fake_offer(&f, 0, 0);
	notify_once();
	assert_true(virtio_work(f.dev));
	assert_false(fake_used(&f, 0, &id, &len));
	assert_int_equal(virtio_save(f.dev, &b), 0);
	fake_write(&f, VIRTIO_MMIO_STATUS, 0);
	saved = reader_of(buf_head(&b), buf_len(&b));
	assert_int_equal(virtio_load(f.dev, &saved), 0);
	virtio_resume(f.dev);
	while (virtio_work(f.dev))
		;
	assert_true(fake_used(&f, 0, &id, &len));
	assert_int_equal(*(uint8_t *)fake_at(&f, STATUS), VIRTIO_BLK_S_OK);
	assert_int_equal(request(VIRTIO_BLK_T_IN, LARGE_SECTORS - 8, 4096), VIRTIO_BLK_S_OK);
	assert_int_equal(data[0] | data[4095], 0);
	buf_done(&b);
}

/* Each may wait for the host's disk: the device is free in between. */
static void a_flush_ends_its_batch(void **state)
{
	uint32_t id, len;

	put_header(VIRTIO_BLK_T_FLUSH, 0);
	fake_desc(&f, 0, 0, HEADER, 16, VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 1, STATUS, 1, VIRTQ_DESC_F_WRITE, 0);
	fake_offer(&f, 0, 0);
	fake_offer(&f, 0, 0);
	notify_once();
	assert_true(fake_used(&f, 0, &id, &len));
	assert_false(fake_used(&f, 0, &id, &len));
	assert_false(virtio_work(f.dev));
	assert_true(fake_used(&f, 0, &id, &len));
}

static void ranges_need_the_feature(void **state)
{
	fake_start(&f, FAKE_FEATURES, 0);
	put_range(0, 0, 8, 0);
	assert_int_equal(request(VIRTIO_BLK_T_DISCARD, 0, 16), VIRTIO_BLK_S_UNSUPP);
	assert_int_equal(request(VIRTIO_BLK_T_WRITE_ZEROES, 0, 16), VIRTIO_BLK_S_UNSUPP);
}

static void hostile_short_header(void **state)
{
	fake_desc(&f, 0, 0, HEADER, 15, VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 1, STATUS, 1, VIRTQ_DESC_F_WRITE, 0);
	assert_int_equal(submit(NULL), -1);
	assert_true(fake_status(&f) & VIRTIO_STATUS_NEEDS_RESET);
}

static void hostile_no_header(void **state)
{
	fake_desc(&f, 0, 0, STATUS, 1, VIRTQ_DESC_F_WRITE, 0);
	assert_int_equal(submit(NULL), -1);
	assert_true(fake_status(&f) & VIRTIO_STATUS_NEEDS_RESET);
}

static void hostile_no_status(void **state)
{
	put_header(VIRTIO_BLK_T_OUT, 0);
	fake_desc(&f, 0, 0, HEADER, 16, VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 1, DATA, 512, 0, 0);
	assert_int_equal(submit(NULL), -1);
	assert_true(fake_status(&f) & VIRTIO_STATUS_NEEDS_RESET);
}

static void hostile_data_over_the_rings(void **state)
{
	/* Reading into its own descriptors and rings only hurts the guest. */
	put_header(VIRTIO_BLK_T_IN, 0);
	fake_desc(&f, 0, 0, HEADER, 16, VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 1, 0x10000, 0x10000, VIRTQ_DESC_F_NEXT | VIRTQ_DESC_F_WRITE, 2);
	fake_desc(&f, 0, 2, STATUS, 1, VIRTQ_DESC_F_WRITE, 0);
	(void)submit(NULL);
	for (unsigned i = 0; i < 100; i++)
		fake_kick(&f, 0);
}

static void save_and_load(void **state)
{
	struct buf b = BUF_INIT(4096);
	struct reader in;

	assert_int_equal(virtio_save(f.dev, &b), 0);
	virtio_destroy(f.dev);
	open_sectors(true, UINT64_C(2) * SECTORS);
	in = reader_of(buf_head(&b), buf_len(&b));
	fake_write(&f, VIRTIO_MMIO_STATUS, 0);
	f.irqs = 0;
	assert_int_equal(virtio_load(f.dev, &in), 0); /* larger than saved: announced on resume */
	assert_true(reader_finished(&in));
	virtio_resume(f.dev);
	assert_int_equal(f.irqs, 1);
	assert_true(fake_read(&f, VIRTIO_MMIO_INTERRUPT_STATUS) & VIRTIO_MMIO_INT_CONFIG);
	assert_int_equal(request(VIRTIO_BLK_T_IN, 0, 512), VIRTIO_BLK_S_OK);
	buf_clear(&b);
	assert_int_equal(virtio_save(f.dev, &b), 0);
	virtio_destroy(f.dev);
	open_device(true); /* smaller than saved */
	in = reader_of(buf_head(&b), buf_len(&b));
	assert_int_equal(virtio_load(f.dev, &in), -EINVAL);
	buf_done(&b);
}

static void freeze_while_in_use(void **state)
{
	uint8_t *data = fake_at(&f, DATA);

	memset(data, 1, 4096);
	assert_int_equal(request(VIRTIO_BLK_T_OUT, 0, 4096), VIRTIO_BLK_S_OK);
	assert_int_equal(blk_freeze(f.dev, memfd_create("top", MFD_CLOEXEC), NULL), 0);
	assert_int_equal(disk_delta_bytes(disk), 0);
	memset(data, 2, 512);
	assert_int_equal(request(VIRTIO_BLK_T_OUT, 1, 512), VIRTIO_BLK_S_OK);
	assert_int_equal(request(VIRTIO_BLK_T_IN, 0, 4096), VIRTIO_BLK_S_OK);
	assert_int_equal(data[0], 1);
	assert_int_equal(data[512], 2);
	assert_int_equal(data[1024], 1);
	assert_int_equal(blk_flush(f.dev), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(config_space),
		T(reads_and_writes),
		T(odd_framing),
		T(largest_request),
		T(larger_than_a_request),
		T(identification),
		T(out_of_range_is_an_error),
		T(unknown_types_are_unsupported),
		cmocka_unit_test_setup_teardown(read_only_disk, setup_read_only, teardown),
		T(discard_and_write_zeroes),
		T(bad_ranges),
		T(small_ranges_are_offered),
		cmocka_unit_test_setup_teardown(the_largest_range_is_bounded, setup_huge, teardown),
		cmocka_unit_test_setup_teardown(
			long_requests_take_many_batches, setup_large, teardown),
		cmocka_unit_test_setup_teardown(
			an_unfinished_request_is_saved_as_offered, setup_large, teardown),
		T(a_flush_ends_its_batch),
		T(ranges_need_the_feature),
		T(hostile_short_header),
		T(hostile_no_header),
		T(hostile_no_status),
		T(hostile_data_over_the_rings),
		T(save_and_load),
		T(freeze_while_in_use),
	};

	return cmocka_run_group_tests_name("blk", tests, NULL, NULL);
}
