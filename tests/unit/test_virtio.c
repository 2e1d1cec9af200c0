/* The virtio-mmio transport and split virtqueues, with a device model that takes every chain and
 * remembers the last one. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "fake_driver.h"
#include "vmm/rng.h"

struct toy {
	struct virtio_device dev;
	struct virtio_chain chain; /* the last one */
	unsigned chains, notified, resets;
	bool hold;     /* take nothing */
	bool forever;  /* another vCPU adds a chain whenever one is taken */
	uint32_t left; /* of these */
	struct fake_driver *driver;
};

static struct toy *toy_of(struct virtio_device *d)
{
	return (struct toy *)(void *)d;
}

static uint64_t toy_features(struct virtio_device *d)
{
	return 1 << 5;
}

static void toy_notify(struct virtio_device *d, unsigned queue)
{
	struct toy *t = toy_of(d);

	t->notified++;
	while (!t->hold && virtio_queue_pop(d, queue, &t->chain) > 0) {
		t->chains++;
		virtio_queue_push(d, queue, t->chain.head, (uint32_t)t->chain.in_bytes);
		if (t->forever && t->left-- > 0)
			fake_offer(t->driver, queue, 0);
	}
	virtio_queue_interrupt(d, queue);
}

static void toy_reset(struct virtio_device *d)
{
	toy_of(d)->resets++;
}

static size_t toy_config(struct virtio_device *d, uint8_t *out, size_t max)
{
	for (uint8_t i = 0; i < 12; i++)
		out[i] = (uint8_t)(i + 1);
	return 12;
}

static void toy_destroy(struct virtio_device *d)
{
	virtio_done(d);
	free(d);
}

static const struct virtio_ops toy_ops = {
	.id = 42,
	.name = "toy",
	.queue_count = 2,
	.queue_size_max = {256, 16},
	.features = toy_features,
	.notify = toy_notify,
	.reset = toy_reset,
	.config = toy_config,
	.destroy = toy_destroy,
};

static struct fake_driver f;

static struct toy *toy(void)
{
	return toy_of(f.dev);
}

static struct virtio_device *toy_new(void)
{
	struct toy *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	virtio_init(&t->dev, &toy_ops, &f.memory, fake_raise_irq, &f);
	t->driver = &f;
	return &t->dev;
}

static int setup(void **state)
{
	log_set_level(LOG_LEVEL_ERROR); /* what hostile drivers do is logged as a warning */
	fake_init(&f);
	f.dev = toy_new();
	return 0;
}

static int teardown(void **state)
{
	fake_done(&f);
	return 0;
}

static int setup_started(void **state)
{
	setup(state);
	fake_start(&f, FAKE_FEATURES, 16);
	f.irqs = 0;
	return 0;
}

static int setup_plain(void **state)
{
	setup(state);
	fake_start(&f, UINT64_C(1) << VIRTIO_F_VERSION_1, 16);
	f.irqs = 0;
	return 0;
}

/* Offers the chain at descriptor 0 and expects that the device wants a reset. */
static void assert_hostile(void)
{
	unsigned before = f.irqs;

	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
	assert_true(fake_status(&f) & VIRTIO_STATUS_NEEDS_RESET);
	assert_true(fake_read(&f, VIRTIO_MMIO_INTERRUPT_STATUS) & VIRTIO_MMIO_INT_CONFIG);
	assert_int_equal(f.irqs, before + 1);
	assert_int_equal(toy()->chains, 0);
	/* Nothing works until the reset, and everything after it. */
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, 0, 0);
	fake_kick(&f, 0);
	assert_int_equal(toy()->chains, 0);
	fake_start(&f, FAKE_FEATURES, 16);
	assert_false(fake_status(&f) & VIRTIO_STATUS_NEEDS_RESET);
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, 0, 0);
	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
	assert_int_equal(toy()->chains, 1);
}

/* --- registers --- */

static void identity(void **state)
{
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_MAGIC_VALUE), 0x74726976);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_VERSION), 2);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_DEVICE_ID), 42);
	fake_write(&f, VIRTIO_MMIO_QUEUE_SEL, 1);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_QUEUE_NUM_MAX), 16);
	fake_write(&f, VIRTIO_MMIO_QUEUE_SEL, 2);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_QUEUE_NUM_MAX), 0);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_SHM_LEN_LOW), UINT32_MAX);
	fake_write(&f, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 1);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_DEVICE_FEATURES), 1);
	fake_write(&f, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 0);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_DEVICE_FEATURES), 0x30000020);
	fake_write(&f, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 2);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_DEVICE_FEATURES), 0);
}

static void odd_accesses_read_zero_and_write_nothing(void **state)
{
	uint8_t b[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	virtio_mmio_read(f.dev, VIRTIO_MMIO_MAGIC_VALUE, b, 8);
	assert_int_equal(get_le64(b), 0);
	virtio_mmio_read(f.dev, VIRTIO_MMIO_MAGIC_VALUE, b, 2);
	assert_int_equal(get_le16(b), 0);
	virtio_mmio_read(f.dev, VIRTIO_MMIO_MAGIC_VALUE + 1, b, 4);
	assert_int_equal(get_le32(b), 0);
	virtio_mmio_read(f.dev, 0x0f8, b, 4);
	assert_int_equal(get_le32(b), 0);
	memset(b, 1, sizeof(b));
	virtio_mmio_write(f.dev, VIRTIO_MMIO_STATUS, b, 1);
	virtio_mmio_write(f.dev, VIRTIO_MMIO_STATUS, b, 8);
	virtio_mmio_write(f.dev, VIRTIO_MMIO_STATUS + 2, b, 4);
	virtio_mmio_write(f.dev, VIRTIO_MMIO_MAGIC_VALUE, b, 4);
	virtio_mmio_write(f.dev, UINT64_MAX, b, 4);
	assert_int_equal(fake_status(&f), 0);
}

static void config_space_any_size_in_range(void **state)
{
	uint8_t b[8];

	virtio_mmio_read(f.dev, VIRTIO_MMIO_CONFIG + 3, b, 1);
	assert_int_equal(b[0], 4);
	virtio_mmio_read(f.dev, VIRTIO_MMIO_CONFIG + 1, b, 2);
	assert_int_equal(get_le16(b), 0x0302);
	virtio_mmio_read(f.dev, VIRTIO_MMIO_CONFIG + 4, b, 8);
	assert_int_equal(get_le64(b), UINT64_C(0x0c0b0a0908070605));
	virtio_mmio_read(f.dev, VIRTIO_MMIO_CONFIG + 5, b, 8);
	assert_int_equal(get_le64(b), 0);
	virtio_mmio_read(f.dev, VIRTIO_MMIO_CONFIG + 3, b, 3);
	assert_int_equal(b[0], 0);
	virtio_mmio_read(f.dev, UINT64_MAX - 2, b, 4);
	assert_int_equal(get_le32(b), 0);
	virtio_mmio_write(f.dev, VIRTIO_MMIO_CONFIG, b, 4);
	virtio_mmio_read(f.dev, VIRTIO_MMIO_CONFIG, b, 1);
	assert_int_equal(b[0], 1);
}

static void status_bits_come_in_order(void **state)
{
	fake_write(&f, VIRTIO_MMIO_STATUS, VIRTIO_STATUS_DRIVER);
	assert_int_equal(fake_status(&f), 0);
	fake_write(&f, VIRTIO_MMIO_STATUS, VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER_OK);
	assert_int_equal(fake_status(&f), 0);
	fake_set_status(&f, VIRTIO_STATUS_ACKNOWLEDGE);
	fake_set_status(&f, VIRTIO_STATUS_DRIVER);
	assert_int_equal(fake_status(&f), 3);
	fake_write(
		&f, VIRTIO_MMIO_STATUS, VIRTIO_STATUS_ACKNOWLEDGE); /* bits are never taken back */
	assert_int_equal(fake_status(&f), 3);
	fake_set_status(&f, VIRTIO_STATUS_NEEDS_RESET); /* not the driver's */
	assert_int_equal(fake_status(&f), 3);
	fake_set_status(&f, 0xffffff00);
	assert_int_equal(fake_status(&f), 3);
	fake_set_status(&f, VIRTIO_STATUS_FAILED);
	assert_int_equal(fake_status(&f), 3 | VIRTIO_STATUS_FAILED);
	fake_write(&f, VIRTIO_MMIO_STATUS, 0);
	assert_int_equal(fake_status(&f), 0);
	assert_int_equal(toy()->resets, 1);
}

static void features_that_were_not_offered_are_refused(void **state)
{
	fake_negotiate(&f, FAKE_FEATURES | 1);
	assert_false(fake_status(&f) & VIRTIO_STATUS_FEATURES_OK);
	fake_negotiate(&f, FAKE_FEATURES | UINT64_C(1) << 33);
	assert_false(fake_status(&f) & VIRTIO_STATUS_FEATURES_OK);
	fake_set_status(&f, VIRTIO_STATUS_FEATURES_OK | VIRTIO_STATUS_DRIVER_OK);
	assert_false(fake_status(&f) & VIRTIO_STATUS_DRIVER_OK);
}

static void version_1_is_required(void **state)
{
	fake_negotiate(&f, 1 << 5);
	assert_false(fake_status(&f) & VIRTIO_STATUS_FEATURES_OK);
	fake_negotiate(&f, UINT64_C(1) << VIRTIO_F_VERSION_1);
	assert_true(fake_status(&f) & VIRTIO_STATUS_FEATURES_OK);
}

static void features_are_fixed_after_features_ok(void **state)
{
	fake_negotiate(&f, UINT64_C(1) << VIRTIO_F_VERSION_1);
	fake_write(&f, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 0);
	fake_write(&f, VIRTIO_MMIO_DRIVER_FEATURES, 1 << 5);
	assert_int_equal(f.dev->driver_features, UINT64_C(1) << VIRTIO_F_VERSION_1);
	fake_write(&f, VIRTIO_MMIO_STATUS, 0);
	fake_write(&f, VIRTIO_MMIO_DRIVER_FEATURES, 1 << 5); /* before DRIVER */
	assert_int_equal(f.dev->driver_features, 0);
	fake_write(&f, VIRTIO_MMIO_STATUS, 3);
	fake_write(&f, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 2);
	fake_write(&f, VIRTIO_MMIO_DRIVER_FEATURES, 1);
	assert_int_equal(f.dev->driver_features, 0);
}

static void queues_are_written_only_between_features_and_driver_ok(void **state)
{
	fake_layout_queue(&f, 0, 8); /* status 0 */
	fake_ready(&f, 0);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_QUEUE_READY), 0);
	assert_int_equal(f.dev->queues[0].size, 0);
	fake_negotiate(&f, FAKE_FEATURES);
	fake_layout_queue(&f, 0, 8);
	fake_ready(&f, 0);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_QUEUE_READY), 1);
	fake_layout_queue(&f, 0, 16); /* ready: ignored */
	assert_int_equal(f.dev->queues[0].size, 8);
	fake_set_status(&f, VIRTIO_STATUS_DRIVER_OK);
	fake_write(&f, VIRTIO_MMIO_QUEUE_DESC_LOW, 0x5000);
	assert_int_equal(f.dev->queues[0].desc, 0x10000);
	fake_layout_queue(&f, 1, 8); /* DRIVER_OK: too late */
	fake_ready(&f, 1);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_QUEUE_READY), 0);
	fake_write(&f, VIRTIO_MMIO_QUEUE_SEL, 99);
	fake_write(&f, VIRTIO_MMIO_QUEUE_NUM, 8);
	fake_write(&f, VIRTIO_MMIO_QUEUE_READY, 1);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_QUEUE_READY), 0);
}

static void queue_can_be_stopped(void **state)
{
	fake_write(&f, VIRTIO_MMIO_QUEUE_SEL, 0);
	fake_write(&f, VIRTIO_MMIO_QUEUE_READY, 0);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_QUEUE_READY), 0);
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, 0, 0);
	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
	assert_int_equal(toy()->chains, 0);
}

static void bad_queue(uint32_t size, gpa_t desc, gpa_t avail, gpa_t used)
{
	fake_negotiate(&f, FAKE_FEATURES);
	fake_layout_queue(&f, 0, 16);
	fake_write(&f, VIRTIO_MMIO_QUEUE_NUM, size);
	fake_write(&f, VIRTIO_MMIO_QUEUE_DESC_LOW, (uint32_t)desc);
	fake_write(&f, VIRTIO_MMIO_QUEUE_DESC_HIGH, (uint32_t)(desc >> 32));
	fake_write(&f, VIRTIO_MMIO_QUEUE_DRIVER_LOW, (uint32_t)avail);
	fake_write(&f, VIRTIO_MMIO_QUEUE_DRIVER_HIGH, (uint32_t)(avail >> 32));
	fake_write(&f, VIRTIO_MMIO_QUEUE_DEVICE_LOW, (uint32_t)used);
	fake_write(&f, VIRTIO_MMIO_QUEUE_DEVICE_HIGH, (uint32_t)(used >> 32));
	fake_ready(&f, 0);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_QUEUE_READY), 0);
	assert_true(fake_status(&f) & VIRTIO_STATUS_NEEDS_RESET);
}

static void bad_queue_layouts_need_a_reset(void **state)
{
	const gpa_t d = 0x10000, a = 0x14000, u = 0x18000, end = FAKE_MEMORY_BYTES;

	bad_queue(0, d, a, u);
	bad_queue(3, d, a, u);
	bad_queue(512, d, a, u);
	bad_queue(0x10010, d, a, u);
	bad_queue(16, d + 8, a, u);
	bad_queue(16, d, a + 1, u);
	bad_queue(16, d, a, u + 2);
	bad_queue(16, end - 128, a, u);
	bad_queue(16, d, end - 4, u);
	bad_queue(16, d, a, end - 4);
	bad_queue(16, UINT64_MAX - 15, a, u);
	bad_queue(16, d, UINT64_MAX - 1, u);
	bad_queue(16, d, a, UINT64_C(1) << 32);
}

static void notify_of_no_queue_is_ignored(void **state)
{
	unsigned before = toy()->notified;

	fake_write(&f, VIRTIO_MMIO_QUEUE_NOTIFY, 2);
	fake_write(&f, VIRTIO_MMIO_QUEUE_NOTIFY, 32);
	fake_write(&f, VIRTIO_MMIO_QUEUE_NOTIFY, UINT32_MAX);
	assert_int_equal(toy()->notified, before);
}

static void nothing_is_taken_before_driver_ok(void **state)
{
	fake_negotiate(&f, FAKE_FEATURES);
	fake_layout_queue(&f, 0, 16);
	fake_ready(&f, 0);
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, 0, 0);
	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
	assert_int_equal(toy()->chains, 0);
	fake_set_status(&f, VIRTIO_STATUS_DRIVER_OK);
	assert_int_equal(toy()->chains, 1);
}

/* --- chains --- */

static void chain_of_both_directions(void **state)
{
	uint8_t b[64];
	uint32_t id, len;

	memcpy(fake_at(&f, FAKE_HEAP), "hello, world", 12);
	fake_desc(&f, 0, 3, FAKE_HEAP, 5, VIRTQ_DESC_F_NEXT, 7);
	fake_desc(&f, 0, 7, FAKE_HEAP + 5, 7, VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 1, FAKE_HEAP + 4096, 10, VIRTQ_DESC_F_NEXT | VIRTQ_DESC_F_WRITE, 2);
	fake_desc(&f, 0, 2, FAKE_HEAP + 8192, 20, VIRTQ_DESC_F_WRITE, 9);
	fake_offer(&f, 0, 3);
	fake_kick(&f, 0);
	assert_int_equal(toy()->chains, 1);
	assert_int_equal(toy()->chain.out_bytes, 12);
	assert_int_equal(toy()->chain.in_bytes, 30);
	assert_int_equal(virtio_chain_read(&toy()->chain, 3, b, sizeof(b)), 9);
	assert_memory_equal(b, "lo, world", 9);
	assert_int_equal(virtio_chain_read(&toy()->chain, 12, b, 1), 0);
	assert_int_equal(virtio_chain_write(&toy()->chain, 8, "abcdef", 6), 6);
	assert_memory_equal(fake_at(&f, FAKE_HEAP + 4096 + 8), "ab", 2);
	assert_memory_equal(fake_at(&f, FAKE_HEAP + 8192), "cdef", 4);
	assert_true(fake_used(&f, 0, &id, &len));
	assert_int_equal(id, 3);
	assert_int_equal(len, 30);
	assert_false(fake_used(&f, 0, &id, &len));
}

static void put_table(gpa_t at, unsigned i, gpa_t addr, uint32_t len, uint16_t flags, uint16_t next)
{
	struct virtq_desc d = {.addr = addr, .len = len, .flags = flags, .next = next};

	memcpy(fake_at(&f, at + i * sizeof(d)), &d, sizeof(d));
}

static void indirect_chain(void **state)
{
	const gpa_t table = FAKE_HEAP + 0x8000;

	put_table(table, 0, FAKE_HEAP, 8, VIRTQ_DESC_F_NEXT, 2);
	put_table(table, 2, FAKE_HEAP + 64, 8, VIRTQ_DESC_F_NEXT | VIRTQ_DESC_F_WRITE, 1);
	put_table(table, 1, FAKE_HEAP + 128, 8, VIRTQ_DESC_F_WRITE, 0);
	fake_desc(&f, 0, 0, FAKE_HEAP + 256, 4, VIRTQ_DESC_F_NEXT, 5);
	/* The device ignores WRITE here, 2.7.5.3.2. */
	fake_desc(&f, 0, 5, table, 48, VIRTQ_DESC_F_INDIRECT | VIRTQ_DESC_F_WRITE, 0);
	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
	assert_int_equal(toy()->chains, 1);
	assert_int_equal(toy()->chain.out_count, 2);
	assert_int_equal(toy()->chain.out_bytes, 12);
	assert_int_equal(toy()->chain.in_count, 2);
}

static void longest_indirect_chain(void **state)
{
	const gpa_t table = FAKE_HEAP + 0x8000;

	for (uint16_t i = 0; i < VIRTIO_CHAIN_MAX; i++)
		put_table(table, i, FAKE_HEAP, 1, i + 1 < VIRTIO_CHAIN_MAX ? VIRTQ_DESC_F_NEXT : 0,
			(uint16_t)(i + 1));
	fake_desc(&f, 0, 0, table, 16 * VIRTIO_CHAIN_MAX, VIRTQ_DESC_F_INDIRECT, 0);
	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
	assert_int_equal(toy()->chains, 1);
	assert_int_equal(toy()->chain.out_count, VIRTIO_CHAIN_MAX);
}

static void hostile_loop_of_one(void **state)
{
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, VIRTQ_DESC_F_NEXT, 0);
	assert_hostile();
}

static void hostile_loop_of_two(void **state)
{
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 1, FAKE_HEAP, 16, VIRTQ_DESC_F_NEXT, 0);
	assert_hostile();
}

static void hostile_loop_in_a_large_queue(void **state)
{
	fake_start(&f, FAKE_FEATURES, 256);
	f.irqs = 0;
	for (uint16_t i = 0; i < 256; i++)
		fake_desc(&f, 0, i, FAKE_HEAP, 16, VIRTQ_DESC_F_NEXT, (uint16_t)((i + 1) % 256));
	assert_hostile();
}

static void hostile_loop_in_an_indirect_table(void **state)
{
	const gpa_t table = FAKE_HEAP + 0x8000;

	put_table(table, 0, FAKE_HEAP, 8, VIRTQ_DESC_F_NEXT, 1);
	put_table(table, 1, FAKE_HEAP, 8, VIRTQ_DESC_F_NEXT, 0);
	fake_desc(&f, 0, 0, table, 32, VIRTQ_DESC_F_INDIRECT, 0);
	assert_hostile();
}

static void hostile_head_out_of_range(void **state)
{
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, 0, 0);
	fake_store16(&f, f.queues[0].avail + VIRTQ_AVAIL_RING, 16);
	fake_store16(&f, f.queues[0].avail + VIRTQ_AVAIL_IDX, 1);
	fake_kick(&f, 0);
	assert_true(fake_status(&f) & VIRTIO_STATUS_NEEDS_RESET);
	assert_int_equal(toy()->chains, 0);
}

static void hostile_next_out_of_range(void **state)
{
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, VIRTQ_DESC_F_NEXT, 16);
	assert_hostile();
}

static void hostile_next_out_of_an_indirect_table(void **state)
{
	const gpa_t table = FAKE_HEAP + 0x8000;

	put_table(table, 0, FAKE_HEAP, 8, VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 0, table, 16, VIRTQ_DESC_F_INDIRECT, 0);
	assert_hostile();
}

static void hostile_address_outside_of_memory(void **state)
{
	fake_desc(&f, 0, 0, FAKE_MEMORY_BYTES, 1, 0, 0);
	assert_hostile();
}

static void hostile_length_beyond_memory(void **state)
{
	fake_desc(&f, 0, 0, FAKE_MEMORY_BYTES - 4096, 4097, 0, 0);
	assert_hostile();
}

static void hostile_length_zero(void **state)
{
	fake_desc(&f, 0, 0, FAKE_HEAP, 0, 0, 0);
	assert_hostile();
}

static void hostile_length_huge(void **state)
{
	fake_desc(&f, 0, 0, 0, UINT32_MAX, 0, 0);
	assert_hostile();
}

static void hostile_address_wraps(void **state)
{
	fake_desc(&f, 0, 0, UINT64_MAX - 15, 4096, VIRTQ_DESC_F_WRITE, 0);
	assert_hostile();
}

static void hostile_readable_behind_writable(void **state)
{
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, VIRTQ_DESC_F_NEXT | VIRTQ_DESC_F_WRITE, 1);
	fake_desc(&f, 0, 1, FAKE_HEAP, 16, 0, 0);
	assert_hostile();
}

static void hostile_indirect_inside_indirect(void **state)
{
	const gpa_t table = FAKE_HEAP + 0x8000;

	put_table(table, 0, table, 16, VIRTQ_DESC_F_INDIRECT, 0);
	fake_desc(&f, 0, 0, table, 16, VIRTQ_DESC_F_INDIRECT, 0);
	assert_hostile();
}

static void hostile_indirect_with_next(void **state)
{
	const gpa_t table = FAKE_HEAP + 0x8000;

	put_table(table, 0, FAKE_HEAP, 16, 0, 0);
	fake_desc(&f, 0, 0, table, 16, VIRTQ_DESC_F_INDIRECT | VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 1, FAKE_HEAP, 16, 0, 0);
	assert_hostile();
}

static void hostile_indirect_of_length_zero(void **state)
{
	fake_desc(&f, 0, 0, FAKE_HEAP, 0, VIRTQ_DESC_F_INDIRECT, 0);
	assert_hostile();
}

static void hostile_indirect_of_an_odd_length(void **state)
{
	fake_desc(&f, 0, 0, FAKE_HEAP, 24, VIRTQ_DESC_F_INDIRECT, 0);
	assert_hostile();
}

static void hostile_indirect_too_large(void **state)
{
	fake_desc(&f, 0, 0, FAKE_HEAP, 16 * (VIRTIO_CHAIN_MAX + 1), VIRTQ_DESC_F_INDIRECT, 0);
	assert_hostile();
}

static void hostile_indirect_outside_of_memory(void **state)
{
	fake_desc(&f, 0, 0, FAKE_MEMORY_BYTES - 16, 32, VIRTQ_DESC_F_INDIRECT, 0);
	assert_hostile();
}

static void hostile_indirect_misaligned(void **state)
{
	fake_desc(&f, 0, 0, FAKE_HEAP + 4, 16, VIRTQ_DESC_F_INDIRECT, 0);
	assert_hostile();
}

static void hostile_indirect_without_the_feature(void **state)
{
	const gpa_t table = FAKE_HEAP + 0x8000;

	put_table(table, 0, FAKE_HEAP, 16, 0, 0);
	fake_desc(&f, 0, 0, table, 16, VIRTQ_DESC_F_INDIRECT, 0);
	assert_hostile();
}

static void hostile_indirect_behind_too_many(void **state)
{
	const gpa_t table = FAKE_HEAP + 0x8000;

	for (uint16_t i = 0; i < VIRTIO_CHAIN_MAX; i++)
		put_table(table, i, FAKE_HEAP, 1, i + 1 < VIRTIO_CHAIN_MAX ? VIRTQ_DESC_F_NEXT : 0,
			(uint16_t)(i + 1));
	fake_desc(&f, 0, 0, FAKE_HEAP, 1, VIRTQ_DESC_F_NEXT, 1);
	fake_desc(&f, 0, 1, table, 16 * VIRTIO_CHAIN_MAX, VIRTQ_DESC_F_INDIRECT, 0);
	assert_hostile();
}

static void hostile_index_ahead_of_the_queue(void **state)
{
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, 0, 0);
	fake_store16(&f, f.queues[0].avail + VIRTQ_AVAIL_IDX, 17);
	fake_kick(&f, 0);
	assert_true(fake_status(&f) & VIRTIO_STATUS_NEEDS_RESET);
	assert_int_equal(toy()->chains, 0);
}

static void hostile_index_goes_back(void **state)
{
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, 0, 0);
	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
	fake_store16(&f, f.queues[0].avail + VIRTQ_AVAIL_IDX, 0);
	fake_kick(&f, 0);
	assert_true(fake_status(&f) & VIRTIO_STATUS_NEEDS_RESET);
	assert_int_equal(toy()->chains, 1);
}

static void hostile_chain_of_4_gib(void **state)
{
	/* No memory is that large here; the sum is checked on the way. */
	for (uint16_t i = 0; i < 16; i++)
		fake_desc(&f, 0, i, 0, FAKE_MEMORY_BYTES, i < 15 ? VIRTQ_DESC_F_NEXT : 0,
			(uint16_t)(i + 1));
	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
	assert_int_equal(toy()->chains, 1); /* 64 MiB: fine */
	assert_int_equal(toy()->chain.out_bytes, 16 * (uint64_t)FAKE_MEMORY_BYTES);
}

static void hostile_used_ring_content_is_not_trusted(void **state)
{
	uint32_t id, len;

	memset(fake_at(&f, f.queues[0].used), 0xff, virtq_used_bytes(16));
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, 0, 0);
	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
	assert_int_equal(toy()->chains, 1);
	assert_int_equal(fake_load16(&f, f.queues[0].used + VIRTQ_USED_IDX), 1);
	assert_true(fake_used(&f, 0, &id, &len));
	assert_int_equal(id, 0);
}

static void rings_may_overlap_each_other(void **state)
{
	fake_negotiate(&f, FAKE_FEATURES);
	fake_layout_queue(&f, 0, 16);
	fake_write(&f, VIRTIO_MMIO_QUEUE_DRIVER_LOW, 0x10000);
	fake_write(&f, VIRTIO_MMIO_QUEUE_DEVICE_LOW, 0x10000);
	fake_ready(&f, 0);
	fake_set_status(&f, VIRTIO_STATUS_DRIVER_OK);
	for (unsigned i = 0; i < 1000; i++) {
		fake_store16(&f, 0x10002, (uint16_t)(i * 7));
		fake_kick(&f, 0);
	}
}

static void endless_driver_lets_others_in(void **state)
{
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, 0, 0);
	toy()->forever = true;
	toy()->left = 10000;
	toy()->notified = 0;
	fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
	assert_int_equal(toy()->chains, 10001);
	assert_in_range(toy()->notified, 10001 / 256, 10001 / 256 + 2);
}

static void unpop_gives_the_same_chain_again(void **state)
{
	struct virtio_chain c;

	toy()->hold = true;
	fake_desc(&f, 0, 4, FAKE_HEAP, 16, 0, 0);
	fake_offer(&f, 0, 4);
	assert_int_equal(virtio_queue_pop(f.dev, 0, &c), 1);
	assert_int_equal(virtio_queue_pop(f.dev, 0, &c), 0);
	virtio_queue_unpop(f.dev, 0);
	c.head = 0;
	assert_int_equal(virtio_queue_pop(f.dev, 0, &c), 1);
	assert_int_equal(c.head, 4);
}

/* Also a few large chains are a batch. */
static void batch_of_many_bytes(void **state)
{
	enum { CHAINS = 12 };

	for (uint16_t i = 0; i < CHAINS; i++) {
		fake_desc(&f, 0, i, FAKE_HEAP, FAKE_MEMORY_BYTES - FAKE_HEAP, 0, 0);
		fake_offer(&f, 0, i);
	}
	toy()->notified = 0;
	fake_kick(&f, 0);
	assert_int_equal(toy()->chains, CHAINS);
	assert_int_equal(toy()->notified, CHAINS / 2); /* 3 MiB each, 4 are a batch */
}

/* What one batch leaves is done by the next one, whoever begins it. */
static void work_in_parts(void **state)
{
	uint8_t zero[4] = {0};

	fake_desc(&f, 0, 0, FAKE_HEAP, 16, 0, 0);
	toy()->forever = true;
	toy()->left = VIRTIO_BATCH_CHAINS + 9;
	fake_offer(&f, 0, 0);
	assert_true(virtio_mmio_write(f.dev, VIRTIO_MMIO_QUEUE_NOTIFY, zero, 4));
	assert_int_equal(toy()->chains, VIRTIO_BATCH_CHAINS);
	assert_false(virtio_work(f.dev));
	assert_int_equal(toy()->chains, VIRTIO_BATCH_CHAINS + 10);
	assert_false(virtio_work(f.dev));
	assert_int_equal(toy()->chains, VIRTIO_BATCH_CHAINS + 10);
	/* A reset forgets it. */
	toy()->left = VIRTIO_BATCH_CHAINS + 9;
	fake_offer(&f, 0, 0);
	assert_true(virtio_mmio_write(f.dev, VIRTIO_MMIO_QUEUE_NOTIFY, zero, 4));
	assert_false(virtio_mmio_write(f.dev, VIRTIO_MMIO_STATUS, zero, 4));
	assert_false(virtio_work(f.dev));
}

static void *want_lock(void *arg)
{
	for (unsigned i = 0; i < 1000; i++)
		(void)fake_read(&f, VIRTIO_MMIO_STATUS);
	atomic_store((atomic_bool *)arg, true);
	return NULL;
}

/* Another CPU gets the lock however busy the device is: with each batch at least once. */
static void others_come_between_batches(void **state)
{
	atomic_bool done = false;
	unsigned batches = 0;
	pthread_t thread;

	fake_desc(&f, 0, 0, FAKE_HEAP, 16, 0, 0);
	toy()->forever = true;
	toy()->left = UINT32_MAX;
	fake_offer(&f, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, want_lock, &done), 0);
	virtio_mmio_write(f.dev, VIRTIO_MMIO_QUEUE_NOTIFY, (const uint8_t[4]){0}, 4);
	for (; !atomic_load(&done); batches++)
		assert_true(virtio_work(f.dev));
	assert_int_equal(pthread_join(thread, NULL), 0);
	print_message("%u batches beside 1000 accesses\n", batches);
}

/* --- interrupts and notifications --- */

static void offer_n(unsigned n)
{
	fake_desc(&f, 0, 0, FAKE_HEAP, 16, 0, 0);
	while (n--)
		fake_offer(&f, 0, 0);
	fake_kick(&f, 0);
}

static void plain_interrupts(void **state)
{
	offer_n(3);
	assert_int_equal(f.irqs, 1);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_VRING);
	fake_write(&f, VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INT_VRING);
	fake_kick(&f, 0); /* nothing new */
	assert_int_equal(f.irqs, 1);
	fake_store16(&f, f.queues[0].avail, VIRTQ_AVAIL_F_NO_INTERRUPT);
	offer_n(1);
	assert_int_equal(f.irqs, 1);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_INTERRUPT_STATUS), 0);
	fake_store16(&f, f.queues[0].avail, 0);
	offer_n(1);
	assert_int_equal(f.irqs, 2);
}

static void set_used_event(uint16_t v)
{
	fake_store16(&f, f.queues[0].avail + VIRTQ_AVAIL_RING + 2 * f.queues[0].size, v);
}

static void event_idx_interrupts(void **state)
{
	set_used_event(0); /* after the first */
	offer_n(1);
	assert_int_equal(f.irqs, 1);
	offer_n(1); /* the driver did not ask again */
	assert_int_equal(f.irqs, 1);
	set_used_event(4); /* after the fifth */
	offer_n(2);
	assert_int_equal(f.irqs, 1);
	offer_n(3); /* third of these passes it */
	assert_int_equal(f.irqs, 2);
	offer_n(1);
	assert_int_equal(f.irqs, 2);
}

static void event_idx_interrupts_over_the_wrap(void **state)
{
	unsigned wanted = 0;

	for (unsigned i = 0; i < 70000; i++) {
		bool want = i % 1000 == 17;

		set_used_event((uint16_t)(want ? i : i + 5000));
		wanted += want;
		offer_n(1);
		assert_int_equal(f.irqs, wanted);
	}
}

static void event_idx_asks_for_notifications(void **state)
{
	const gpa_t event = f.queues[0].used + VIRTQ_USED_RING + 8 * f.queues[0].size;

	offer_n(3);
	assert_int_equal(fake_load16(&f, event), 3);
	offer_n(1);
	assert_int_equal(fake_load16(&f, event), 4);
}

static void one_interrupt_per_batch(void **state)
{
	struct virtio_chain c;

	toy()->hold = true;
	for (unsigned q = 0; q < 2; q++) {
		fake_desc(&f, q, 0, FAKE_HEAP, 16, 0, 0);
		fake_offer(&f, q, 0);
	}
	virtio_batch_begin(f.dev);
	for (unsigned q = 0; q < 2; q++) {
		assert_int_equal(virtio_queue_pop(f.dev, q, &c), 1);
		virtio_queue_push(f.dev, q, c.head, 0);
		virtio_queue_interrupt(f.dev, q);
	}
	assert_int_equal(f.irqs, 0);
	assert_int_equal(virtio_batch_end(f.dev), 0);
	assert_int_equal(f.irqs, 1);
}

/* --- snapshots --- */

static void save_and_load(void **state)
{
	struct buf b = BUF_INIT(65536);
	struct reader in;

	offer_n(5);
	toy()->hold = true;
	offer_n(1);
	f.dev->interrupt_status = VIRTIO_MMIO_INT_VRING;
	assert_int_equal(virtio_save(f.dev, &b), 0);
	virtio_destroy(f.dev);
	f.dev = toy_new();
	in = reader_of(buf_head(&b), buf_len(&b));
	assert_int_equal(virtio_load(f.dev, &in), 0);
	assert_true(reader_finished(&in));
	assert_int_equal(f.dev->queues[0].last_avail, 5);
	assert_int_equal(toy()->chains, 0);
	f.irqs = 0;
	virtio_resume(f.dev);
	assert_int_equal(toy()->chains, 1);
	assert_true(f.irqs > 0);
	offer_n(1);
	assert_int_equal(toy()->chains, 2);
	buf_done(&b);
}

/* Any cut and any flipped bit is refused or gives a device that works. */
static void load_survives_damage(void **state)
{
	struct buf b = BUF_INIT(65536);
	uint8_t copy[1024];
	size_t n;

	assert_int_equal(virtio_save(f.dev, &b), 0);
	n = buf_len(&b);
	assert_in_range(n, 1, sizeof(copy));
	for (size_t i = 0; i < n; i++) {
		struct reader in = reader_of(buf_head(&b), i);

		assert_int_equal(virtio_load(f.dev, &in), -EINVAL);
		assert_int_equal(f.dev->status, 0);
	}
	for (size_t i = 0; i < n * 8; i++) {
		struct reader in = reader_of(copy, n);

		memcpy(copy, buf_head(&b), n);
		copy[i / 8] ^= (uint8_t)(1 << i % 8);
		if (virtio_load(f.dev, &in) == 0) {
			virtio_resume(f.dev);
			fake_kick(&f, 0);
		}
	}
	buf_done(&b);
}

static void load_refuses_another_device(void **state)
{
	struct buf b = BUF_INIT(65536);
	struct virtio_device *rng;
	struct reader in;

	assert_int_equal(virtio_save(f.dev, &b), 0);
	assert_int_equal(rng_create(&f.memory, fake_raise_irq, &f, &rng, NULL), 0);
	in = reader_of(buf_head(&b), buf_len(&b));
	assert_int_equal(virtio_load(rng, &in), -EINVAL);
	virtio_destroy(rng);
	buf_done(&b);
}

#define T(name)	 cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TS(name) cmocka_unit_test_setup_teardown(name, setup_started, teardown)
#define TP(name) cmocka_unit_test_setup_teardown(name, setup_plain, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(identity),
		T(odd_accesses_read_zero_and_write_nothing),
		T(config_space_any_size_in_range),
		T(status_bits_come_in_order),
		T(features_that_were_not_offered_are_refused),
		T(version_1_is_required),
		T(features_are_fixed_after_features_ok),
		T(queues_are_written_only_between_features_and_driver_ok),
		TS(queue_can_be_stopped),
		T(bad_queue_layouts_need_a_reset),
		TS(notify_of_no_queue_is_ignored),
		T(nothing_is_taken_before_driver_ok),
		TS(chain_of_both_directions),
		TS(indirect_chain),
		TS(longest_indirect_chain),
		TS(hostile_loop_of_one),
		TS(hostile_loop_of_two),
		TS(hostile_loop_in_a_large_queue),
		TS(hostile_loop_in_an_indirect_table),
		TS(hostile_head_out_of_range),
		TS(hostile_next_out_of_range),
		TS(hostile_next_out_of_an_indirect_table),
		TS(hostile_address_outside_of_memory),
		TS(hostile_length_beyond_memory),
		TS(hostile_length_zero),
		TS(hostile_length_huge),
		TS(hostile_address_wraps),
		TS(hostile_readable_behind_writable),
		TS(hostile_indirect_inside_indirect),
		TS(hostile_indirect_with_next),
		TS(hostile_indirect_of_length_zero),
		TS(hostile_indirect_of_an_odd_length),
		TS(hostile_indirect_too_large),
		TS(hostile_indirect_outside_of_memory),
		TS(hostile_indirect_misaligned),
		TP(hostile_indirect_without_the_feature),
		TS(hostile_indirect_behind_too_many),
		TS(hostile_index_ahead_of_the_queue),
		TS(hostile_index_goes_back),
		TS(hostile_chain_of_4_gib),
		TS(hostile_used_ring_content_is_not_trusted),
		T(rings_may_overlap_each_other),
		TS(endless_driver_lets_others_in),
		TS(unpop_gives_the_same_chain_again),
		TP(plain_interrupts),
		TS(event_idx_interrupts),
		TS(event_idx_interrupts_over_the_wrap),
		TS(event_idx_asks_for_notifications),
		TP(one_interrupt_per_batch),
		TS(batch_of_many_bytes),
		TS(work_in_parts),
		TS(others_come_between_batches),
		TS(save_and_load),
		TS(load_survives_damage),
		TS(load_refuses_another_device),
	};

	return cmocka_run_group_tests_name("virtio", tests, NULL, NULL);
}
