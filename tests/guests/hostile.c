/* Drivers that break the rules of virtqueues. Each attack runs against every device that takes
 * chains; afterwards the device must say that it needs a reset (or must not mind, where the rules
 * leave it the choice), must not touch its queue any more, and must work again once it is reset. */
#include "driver.h"

enum { SECTOR = 512, OUTSIDE = 64 << 20, GAP = 0xc8000000 };
#define BIT(n)	 (UINT64_C(1) << (n))
#define INDIRECT BIT(VIRTIO_F_RING_INDIRECT_DESC)

static struct ring ring;
static struct virtq_desc table[TABLE_SIZE] __attribute__((aligned(4096)));
static uint8_t data[4096] __attribute__((aligned(4096)));
static struct block_header header;

static void set_desc(
	struct queue *q, unsigned i, uint64_t addr, uint32_t len, uint16_t flags, uint16_t next)
{
	volatile struct virtq_desc *d = &q->ring->desc[i];

	d->addr = addr;
	d->len = len;
	d->flags = flags;
	d->next = next;
}

/* --- the device under attack --- */

struct victim {
	struct device device;
	struct queue queue;
};

static void open_victim(struct victim *v, unsigned slot, uint64_t features)
{
	device_open(&v->device, slot, features);
	queue_open(&v->queue, &v->device, 0, &ring);
	device_start(&v->device);
}

/* A good request after a reset. */
static void check_works(unsigned slot)
{
	struct victim v;
	struct block b;
	uint16_t head;
	uint32_t len;

	if (slot == SLOT_DISK) {
		block_open(&b, slot, INDIRECT, &ring);
		EQUAL(block_request(&b, VIRTIO_BLK_T_IN, 3, data, SECTOR), VIRTIO_BLK_S_OK);
		EQUAL(*(uint64_t *)(void *)data, 3);
		return;
	}
	open_victim(&v, slot, 0);
	queue_add(&v.queue, &(struct segment){data, 16, true}, 1);
	queue_notify(&v.queue);
	CHECK(queue_take(&v.queue, &head, &len));
	EQUAL(len, 16);
}

static void expect_broken(struct victim *v, uint16_t used_before)
{
	CHECK(device_is_broken(&v->device));
	CHECK(reg(&v->device, VIRTIO_MMIO_INTERRUPT_STATUS) & VIRTIO_MMIO_INT_CONFIG);
	EQUAL(v->queue.ring->used.idx, used_before);
	queue_notify(&v->queue); /* ignored */
	device_start(&v->device);
	EQUAL(v->queue.ring->used.idx, used_before);
	CHECK(device_is_broken(&v->device));
}

static const unsigned victims[] = {SLOT_RNG, SLOT_DISK};

/* Lets `attack` prepare the ring, for each victim and each variant, and expects a reset. */
static void attack_features(
	void (*attack)(struct queue *q, unsigned variant), unsigned variants, uint64_t features)
{
	for (unsigned i = 0; i < ARRAY_SIZE(victims); i++)
		for (unsigned k = 0; k < variants; k++) {
			struct victim v;

			open_victim(&v, victims[i], features);
			attack(&v.queue, k);
			queue_notify(&v.queue);
			if (!device_is_broken(&v.device))
				print("slot %u variant %u\n", (uint64_t)victims[i], (uint64_t)k);
			expect_broken(&v, 0);
			check_works(victims[i]);
		}
}

static void attack(void (*f)(struct queue *q, unsigned variant), unsigned variants)
{
	attack_features(f, variants, INDIRECT);
}

/* --- descriptors --- */

static void loop(struct queue *q, unsigned variant)
{
	uint16_t flags = VIRTQ_DESC_F_NEXT | (variant & 1 ? VIRTQ_DESC_F_WRITE : 0);

	set_desc(q, 0, (uint64_t)data, 64, flags, variant < 2 ? 0 : 1);
	set_desc(q, 1, (uint64_t)data, 64, flags, variant < 4 ? 0 : 2);
	set_desc(q, 2, (uint64_t)data, 64, flags, 1);
	queue_offer(q, 0);
}

static void test_loop(void)
{
	attack(loop, 6);
}

static void next_out_of_range(struct queue *q, unsigned variant)
{
	static const uint16_t next[] = {QUEUE_SIZE, QUEUE_SIZE + 1, 0x7fff, 0x8000, 0xffff};

	set_desc(q, 0, (uint64_t)data, 64, VIRTQ_DESC_F_NEXT, next[variant]);
	queue_offer(q, 0);
}

static void test_next_out_of_range(void)
{
	attack(next_out_of_range, 5);
}

static void head_out_of_range(struct queue *q, unsigned variant)
{
	static const uint16_t head[] = {QUEUE_SIZE, 0x8000, 0xffff};

	queue_offer(q, head[variant]);
}

static void test_head_out_of_range(void)
{
	attack(head_out_of_range, 3);
}

static const struct {
	uint64_t addr;
	uint32_t len;
} outside[] = {
	{OUTSIDE, 1},
	{OUTSIDE, SECTOR},
	{OUTSIDE - 256, SECTOR},
	{OUTSIDE - 1, 2},
	{GAP, SECTOR},
	{SLOTS_AT, SECTOR},
	{BIT(32), SECTOR},
	{BIT(63), SECTOR},
	{BIT(48), 1},
	/* up to and beyond 2^64 */
	{UINT64_MAX, 1},
	{UINT64_MAX, 2},
	{UINT64_MAX - 255, SECTOR},
	{UINT64_MAX - 511, SECTOR},
	{UINT64_MAX - 0xfffffffe, 0xffffffff},
	{0x100000, 0xffffffff},
	{0, 0xffffffff},
	{OUTSIDE - 1, 0xffffffff},
};

static void address_outside(struct queue *q, unsigned variant)
{
	unsigned i = variant / 2;

	set_desc(q, 0, outside[i].addr, outside[i].len, variant & 1 ? VIRTQ_DESC_F_WRITE : 0, 0);
	queue_offer(q, 0);
}

static void test_address_outside(void)
{
	attack(address_outside, 2 * ARRAY_SIZE(outside));
}

static void length_zero(struct queue *q, unsigned variant)
{
	set_desc(q, 0, (uint64_t)data, variant == 1 ? 0 : 16, VIRTQ_DESC_F_NEXT, 1);
	set_desc(q, 1, (uint64_t)data, variant == 1 ? 16 : 0, VIRTQ_DESC_F_WRITE, 0);
	queue_offer(q, 0);
}

static void test_length_zero(void)
{
	attack(length_zero, 2);
}

static void wrong_order(struct queue *q, unsigned variant)
{
	set_desc(q, 0, (uint64_t)data, 512, VIRTQ_DESC_F_NEXT | VIRTQ_DESC_F_WRITE, 1);
	set_desc(q, 1, (uint64_t)data, 16, variant ? VIRTQ_DESC_F_NEXT : 0, 2);
	set_desc(q, 2, (uint64_t)data, 16, VIRTQ_DESC_F_WRITE, 0);
	queue_offer(q, 0);
}

static void test_wrong_order(void)
{
	attack(wrong_order, 2);
}

/* --- indirect tables --- */

static void indirect(struct queue *q, uint64_t addr, uint32_t len, uint16_t flags)
{
	set_desc(q, 0, addr, len, VIRTQ_DESC_F_INDIRECT | flags, 1);
	set_desc(q, 1, (uint64_t)data, 16, VIRTQ_DESC_F_WRITE, 0);
	queue_offer(q, 0);
}

static void good_table(void)
{
	header = (struct block_header){0};
	table[0] = (struct virtq_desc){(uint64_t)&header, sizeof(header), VIRTQ_DESC_F_NEXT, 1};
	table[1] = (struct virtq_desc){
		(uint64_t)data, SECTOR, VIRTQ_DESC_F_NEXT | VIRTQ_DESC_F_WRITE, 2};
	table[2] = (struct virtq_desc){(uint64_t)data + SECTOR, 1, VIRTQ_DESC_F_WRITE, 0};
}

static void indirect_size(struct queue *q, unsigned variant)
{
	static const uint32_t bytes[] = {0, 1, 15, 17, 47, 49, 0xfffffff0, 0xffffffff, 1u << 20};

	good_table();
	indirect(q, (uint64_t)table, bytes[variant], 0);
}

static void test_indirect_size(void)
{
	attack(indirect_size, 9);
}

static void indirect_outside(struct queue *q, unsigned variant)
{
	good_table();
	indirect(q, outside[variant].addr & ~UINT64_C(15), 48, 0);
}

static void test_indirect_outside(void)
{
	attack(indirect_outside, ARRAY_SIZE(outside) - 3); /* the last begin inside */
}

static void indirect_nested(struct queue *q, unsigned variant)
{
	good_table();
	table[variant] = (struct virtq_desc){
		(uint64_t)table, sizeof(table[0]) * 3, VIRTQ_DESC_F_INDIRECT, 0};
	indirect(q, (uint64_t)table, sizeof(table[0]) * 3, 0);
}

static void test_indirect_nested(void)
{
	attack(indirect_nested, 3);
}

static void indirect_chain(struct queue *q, unsigned variant)
{
	good_table();
	switch (variant) {
	case 0: /* the descriptor itself has a next one */
		indirect(q, (uint64_t)table, 48, VIRTQ_DESC_F_NEXT);
		return;
	case 1: /* loops inside of the table */
		table[2].flags |= VIRTQ_DESC_F_NEXT;
		table[2].next = 1;
		break;
	case 2: /* leaves the table */
		table[1].next = 3;
		break;
	case 3:
		table[0].next = 0xffff;
		break;
	default: /* misaligned table */
		indirect(q, (uint64_t)table + 4, 48, 0);
		return;
	}
	indirect(q, (uint64_t)table, 48, 0);
}

static void test_indirect_chain(void)
{
	attack(indirect_chain, 5);
}

static void indirect_not_negotiated(struct queue *q, unsigned variant)
{
	good_table();
	indirect(q, (uint64_t)table, 48, 0);
}

static void test_indirect_not_negotiated(void)
{
	attack_features(indirect_not_negotiated, 1, 0);
}

/* 128 times 60 MiB in one chain: more than 32 bits of length. */
static void indirect_huge(struct queue *q, unsigned variant)
{
	for (unsigned i = 0; i < TABLE_SIZE; i++)
		table[i] = (struct virtq_desc){0x200000, 60 << 20,
			(uint16_t)((i + 1 < TABLE_SIZE ? VIRTQ_DESC_F_NEXT : 0) |
				   (i && variant ? VIRTQ_DESC_F_WRITE : 0)),
			(uint16_t)(i + 1)};
	indirect(q, (uint64_t)table, sizeof(table), 0);
}

static void test_indirect_huge(void)
{
	attack(indirect_huge, 2);
}

/* --- the available ring --- */

static void index_jump(struct queue *q, unsigned variant)
{
	static const uint16_t jump[] = {40000, QUEUE_SIZE + 1, 0x7fff, 0x8000, 0xffff};

	q->ring->avail.idx = (uint16_t)(q->ring->avail.idx + jump[variant]);
}

static void test_index_jump(void)
{
	attack(index_jump, 5);
}

/* --- requests that a block device cannot answer --- */

static void no_status(struct queue *q, unsigned variant)
{
	header = (struct block_header){0};
	switch (variant) {
	case 0: /* header only */
		set_desc(q, 0, (uint64_t)&header, 16, 0, 0);
		break;
	case 1: /* header too short */
		set_desc(q, 0, (uint64_t)&header, 15, VIRTQ_DESC_F_NEXT, 1);
		set_desc(q, 1, (uint64_t)data, 1, VIRTQ_DESC_F_WRITE, 0);
		break;
	default: /* no header at all */
		set_desc(q, 0, (uint64_t)data, 513, VIRTQ_DESC_F_WRITE, 0);
		break;
	}
	queue_offer(q, 0);
}

static void test_no_status(void)
{
	for (unsigned k = 0; k < 3; k++) {
		struct victim v;

		open_victim(&v, SLOT_DISK, 0);
		no_status(&v.queue, k);
		queue_notify(&v.queue);
		expect_broken(&v, 0);
		check_works(SLOT_DISK);
	}
}

/* The device is made to write over its own rings: whatever it then reads, it survives. */
static void test_write_over_rings(void)
{
	for (unsigned i = 0; i < 64; i++) {
		struct victim v;
		uint64_t at = (uint64_t)&ring + i * 8;

		open_victim(&v, SLOT_RNG, INDIRECT);
		for (unsigned k = 0; k < 8; k++) {
			set_desc(&v.queue, k, at, 256, VIRTQ_DESC_F_WRITE, 0);
			queue_offer(&v.queue, (uint16_t)k);
		}
		queue_notify(&v.queue);
		queue_notify(&v.queue);
	}
	check_works(SLOT_RNG);
	for (unsigned i = 0; i < 8; i++) {
		struct block b;

		block_open(&b, SLOT_DISK, 0, &ring);
		header = (struct block_header){.type = VIRTIO_BLK_T_IN, .sector = i};
		queue_add(&b.queue,
			(struct segment[]){{&header, 16, false},
				{(uint8_t *)&ring + i * 64, SECTOR, true},
				{(uint8_t *)&ring + i, 1, true}},
			3);
		queue_notify(&b.queue);
		queue_notify(&b.queue);
	}
	check_works(SLOT_DISK);
}

/* --- a queue that fills itself --- */

enum { TURNS = 65536 / QUEUE_SIZE, IDLE = 5 };

/* What the disk's sectors hold: the request for the next one, and a ring in which it is available
 * behind QUEUE_SIZE - 1 others, which do nothing. */
union turn {
	struct {
		struct block_header header;
		uint8_t avail[sizeof(ring.avail)];
	};
	uint8_t sector[SECTOR];
};

static void write_turns(void)
{
	static union turn turns[sizeof(data) / SECTOR];
	uint16_t idx = 1, heads[QUEUE_SIZE];
	struct block b;

	block_open(&b, SLOT_DISK, 0, &ring);
	for (unsigned i = 0; i < QUEUE_SIZE; i++)
		heads[i] = i ? IDLE : 0;
	for (unsigned i = 0; i < TURNS; i++) {
		union turn *t = &turns[i % ARRAY_SIZE(turns)];

		idx = (uint16_t)(idx + QUEUE_SIZE);
		t->header = (struct block_header){VIRTIO_BLK_T_IN, 0, (i + 1) % TURNS};
		memcpy(t->avail + 2, &idx, sizeof(idx));
		memcpy(t->avail + 4, heads, sizeof(heads));
		if (i % ARRAY_SIZE(turns) == ARRAY_SIZE(turns) - 1)
			EQUAL(block_request(&b, VIRTIO_BLK_T_OUT, i + 1 - ARRAY_SIZE(turns), turns,
				      sizeof(turns)),
				VIRTIO_BLK_S_OK);
	}
}

static void test_endless_queue(void)
{
	static struct block_header idle = {.type = VIRTIO_BLK_T_GET_ID};
	const uint16_t in = VIRTQ_DESC_F_WRITE, more = VIRTQ_DESC_F_NEXT;
	static uint8_t status;
	struct block b;
	struct queue *q = &b.queue;

	write_turns();
	block_open(&b, SLOT_DISK, 0, &ring);
	header = (struct block_header){.type = VIRTIO_BLK_T_IN};
	set_desc(q, 0, (uint64_t)&header, sizeof(header), more, 1);
	set_desc(q, 1, (uint64_t)&header, sizeof(header), in | more, 2);
	set_desc(q, 2, (uint64_t)&ring.avail, sizeof(ring.avail), in | more, 3);
	set_desc(q, 3, (uint64_t)data, SECTOR - sizeof(header) - sizeof(ring.avail), in | more, 4);
	set_desc(q, 4, (uint64_t)&status, 1, in, 0);
	set_desc(q, IDLE, (uint64_t)&idle, sizeof(idle), more, IDLE + 1);
	set_desc(q, IDLE + 1, (uint64_t)&status, 1, in, 0);
	queue_offer(q, 0);
	MAILBOX->stage = 1;
	queue_notify(q);
	CHECK(!"reached: the queue has an end");
}

/* --- requests that take long, and are legal --- */

enum { RANGES = 32, RANGE_BLOCKS = 2048 }; /* all of the disk */

/* Every other block is the delta's own, so that each range is as many pieces. */
static void write_every_other_block(struct block *b)
{
	for (uint64_t i = 0; i < RANGE_BLOCKS; i += 2)
		EQUAL(block_request(b, VIRTIO_BLK_T_OUT, i * 8, data, sizeof(data)),
			VIRTIO_BLK_S_OK);
}

static void test_long_requests(void)
{
	static struct {
		uint64_t sector;
		uint32_t sectors, flags;
	} ranges[RANGES];
	static struct block_header discard = {.type = VIRTIO_BLK_T_DISCARD};
	static volatile uint8_t status[QUEUE_SIZE];
	struct block b;

	for (unsigned i = 0; i < RANGES; i++)
		ranges[i].sectors = RANGE_BLOCKS * 8;
	block_open(&b, SLOT_DISK, BIT(VIRTIO_BLK_F_DISCARD) | INDIRECT, &ring);
	CHECK(b.indirect);
	write_every_other_block(&b);
	MAILBOX->stage = 1;
	for (;;) {
		for (unsigned i = 0; i < QUEUE_SIZE; i++)
			queue_add_indirect(&b.queue,
				(struct segment[]){{&discard, sizeof(discard), false},
					{ranges, sizeof(ranges), false}, {&status[i], 1, true}},
				3);
		queue_notify(&b.queue);
		for (unsigned i = 0; i < QUEUE_SIZE; i++) {
			while (b.queue.ring->used.idx == b.queue.seen)
				;
			b.queue.seen++;
			EQUAL(status[i], VIRTIO_BLK_S_OK);
		}
		MAILBOX->beat++;
	}
}

/* --- where queues are put --- */

static void expect_refused(
	unsigned slot, uint32_t size, uint64_t desc, uint64_t avail, uint64_t used)
{
	struct device d;

	device_open(&d, slot, 0);
	if (queue_place(&d, 0, size, desc, avail, used))
		print("size %u, areas at 0x%x 0x%x 0x%x\n", (uint64_t)size, desc, avail, used);
	EQUAL(reg(&d, VIRTIO_MMIO_QUEUE_READY), 0);
	CHECK(device_is_broken(&d));
	device_start(&d);
	queue_notify(&(struct queue){.device = &d});
	CHECK(device_is_broken(&d));
}

static void test_queue_size(void)
{
	static const uint32_t sizes[] = {0, 3, 15, 17, 24, 255, 512, 1024, 32768, 65535, 65536,
		65536 + 16, 0x80000000, 0xffffffff};

	for (unsigned i = 0; i < ARRAY_SIZE(victims); i++)
		for (unsigned k = 0; k < ARRAY_SIZE(sizes); k++) {
			expect_refused(victims[i], sizes[k], 0x400000, 0x500000, 0x600000);
			check_works(victims[i]);
		}
}

static void test_queue_address(void)
{
	static const uint64_t good[3] = {0x400000, 0x500000, 0x600000};
	static const uint64_t bad[] = {OUTSIDE, OUTSIDE - 16, GAP, BIT(32), BIT(63),
		UINT64_MAX - 15, UINT64_MAX - 31, 0x400001};

	for (unsigned i = 0; i < ARRAY_SIZE(victims); i++)
		for (unsigned area = 0; area < 3; area++)
			for (unsigned k = 0; k < ARRAY_SIZE(bad); k++) {
				uint64_t at[3] = {good[0], good[1], good[2]};

				at[area] = bad[k];
				expect_refused(victims[i], QUEUE_SIZE, at[0], at[1], at[2]);
				check_works(victims[i]);
			}
	expect_refused(SLOT_RNG, QUEUE_SIZE, good[0] + 8, good[1], good[2]); /* 16 is needed */
	expect_refused(SLOT_RNG, QUEUE_SIZE, good[0], good[1], good[2] + 2); /* 4 is needed */
	check_works(SLOT_RNG);
}

/* The rings end with memory: allowed, and nothing behind it is touched. */
static void test_queue_at_the_end(void)
{
	uint64_t used = OUTSIDE - (4 + 8 * QUEUE_SIZE + 4), avail = used - 64, desc = avail - 512;
	struct device d;

	desc &= ~UINT64_C(15);
	device_open(&d, SLOT_RNG, BIT(VIRTIO_F_RING_EVENT_IDX));
	memset((void *)desc, 0, OUTSIDE - desc);
	CHECK(queue_place(&d, 0, QUEUE_SIZE, desc, avail, used));
	device_start(&d);
	for (unsigned i = 0; i < QUEUE_SIZE; i++) {
		struct virtq_desc *p = (struct virtq_desc *)desc + i;

		*p = (struct virtq_desc){(uint64_t)data, 8, VIRTQ_DESC_F_WRITE, 0};
		((uint16_t *)avail)[2 + i] = (uint16_t)i;
	}
	((uint16_t *)avail)[1] = QUEUE_SIZE;
	set_reg(&d, VIRTIO_MMIO_QUEUE_NOTIFY, 0);
	EQUAL(*(volatile uint16_t *)(used + 2), QUEUE_SIZE);
	CHECK(!device_is_broken(&d));
}

/* --- the order of things --- */

static void test_status_order(void)
{
	struct device d = {.at = SLOTS_AT + SLOT_DISK * SLOT_BYTES};

	for (uint32_t s = 1; s < 256; s++) {
		set_reg(&d, VIRTIO_MMIO_STATUS, 0);
		set_reg(&d, VIRTIO_MMIO_STATUS, s);
		CHECK(!(reg(&d, VIRTIO_MMIO_STATUS) & VIRTIO_STATUS_NEEDS_RESET));
		queue_notify(&(struct queue){.device = &d});
	}
	check_works(SLOT_DISK);
	/* features that were not offered */
	set_reg(&d, VIRTIO_MMIO_STATUS, 0);
	set_reg(&d, VIRTIO_MMIO_STATUS, 1);
	set_reg(&d, VIRTIO_MMIO_STATUS, 3);
	for (uint32_t i = 0; i < 4; i++) {
		set_reg(&d, VIRTIO_MMIO_DRIVER_FEATURES_SEL, i);
		set_reg(&d, VIRTIO_MMIO_DRIVER_FEATURES, 0xffffffff);
	}
	set_reg(&d, VIRTIO_MMIO_STATUS, 11);
	EQUAL(reg(&d, VIRTIO_MMIO_STATUS), 3);
	check_works(SLOT_DISK);
}

static void test_no_queues(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(victims); i++) {
		struct device d;

		device_open(&d, victims[i], 0);
		device_start(&d);
		for (uint32_t k = 0; k < 8; k++)
			set_reg(&d, VIRTIO_MMIO_QUEUE_NOTIFY, k);
		set_reg(&d, VIRTIO_MMIO_QUEUE_NOTIFY, 0xffffffff);
		set_reg(&d, VIRTIO_MMIO_QUEUE_NOTIFY, 0x80000000);
		EQUAL(reg(&d, VIRTIO_MMIO_STATUS), 15);
		check_works(victims[i]);
	}
}

static void test_no_such_queue(void)
{
	static const uint32_t indices[] = {1, 2, 3, 4, 0x7fffffff, 0x80000000, 0xffffffff};
	struct device d;

	device_open(&d, SLOT_RNG, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(indices); i++) {
		CHECK(!queue_place(&d, indices[i], QUEUE_SIZE, 0x400000, 0x500000, 0x600000));
		EQUAL(reg(&d, VIRTIO_MMIO_QUEUE_NUM_MAX), 0);
	}
	check_works(SLOT_RNG);
}

static void test_notify_early(void)
{
	struct victim v;
	uint16_t head;
	uint32_t len;

	device_open(&v.device, SLOT_RNG, 0);
	queue_open(&v.queue, &v.device, 0, &ring);
	queue_add(&v.queue, &(struct segment){data, 8, true}, 1);
	queue_notify(&v.queue);
	EQUAL(ring.used.idx, 0);
	EQUAL(reg(&v.device, VIRTIO_MMIO_STATUS), 11);
	device_start(&v.device); /* looks at the queue by itself */
	CHECK(queue_take(&v.queue, &head, &len));
	EQUAL(len, 8);
}

/* A running queue is turned off, moved and turned on. */
static void test_move_queue(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(victims); i++) {
		struct victim v;

		open_victim(&v, victims[i], 0);
		queue_place(&v.device, 0, 8, OUTSIDE, UINT64_MAX - 1, 1); /* while it is ready */
		set_reg(&v.device, VIRTIO_MMIO_QUEUE_READY, 0);
		EQUAL(reg(&v.device, VIRTIO_MMIO_QUEUE_READY), 0);
		queue_notify(&v.queue);
		queue_place(&v.device, 0, 0x8000, OUTSIDE, UINT64_MAX - 1, 1);
		queue_notify(&v.queue);
		check_works(victims[i]);
	}
}

/* --- races --- */

static volatile uint32_t race_over;

static void scribble(void)
{
	volatile uint16_t *p = (volatile uint16_t *)&ring;
	uint64_t x = 88172645463325252;

	while (!race_over) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		if (x & 1)
			p[(x >> 8) % (sizeof(ring) / 2)] = (uint16_t)(x >> 40);
		else
			((volatile uint16_t *)table)[(x >> 8) % (sizeof(table) / 2)] =
				(uint16_t)(x >> 40 & 0x1f);
	}
	race_over = 2;
}

static void end_race(void)
{
	race_over = 1;
	while (race_over != 2)
		cpu_relax();
}

/* A second CPU rewrites rings and tables while the device reads them. */
static void test_race(void)
{
	uint64_t end;

	cpu_start(1, scribble);
	end = cycles() + 300000000;
	for (unsigned i = 0; cycles() < end; i++) {
		unsigned slot = victims[i % ARRAY_SIZE(victims)];
		struct victim v;

		open_victim(&v, slot, INDIRECT | BIT(VIRTIO_F_RING_EVENT_IDX));
		for (unsigned k = 0; k < 20 && !device_is_broken(&v.device); k++) {
			good_table();
			indirect(&v.queue, (uint64_t)table, 48, 0);
			queue_notify(&v.queue);
		}
	}
	end_race();
	check_works(SLOT_RNG);
	check_works(SLOT_DISK);
}

static void reset_disk(void)
{
	while (!race_over)
		write32(SLOTS_AT + SLOT_DISK * SLOT_BYTES + VIRTIO_MMIO_STATUS, 0);
	race_over = 2;
}

/* A second CPU resets the device while requests are on their way. */
static void test_reset_in_flight(void)
{
	static uint8_t large[65536];
	struct device d = {.at = SLOTS_AT + SLOT_DISK * SLOT_BYTES};
	uint64_t end;

	cpu_start(1, reset_disk);
	end = cycles() + 300000000;
	while (cycles() < end) {
		struct queue q = {.device = &d, .size = QUEUE_SIZE, .ring = &ring};

		memset(&ring, 0, sizeof(ring));
		for (uint32_t s = 1; s <= 11; s = s == 3 ? 11 : s + 2)
			set_reg(&d, VIRTIO_MMIO_STATUS, s);
		(void)queue_place(&d, 0, QUEUE_SIZE, (uint64_t)ring.desc, (uint64_t)&ring.avail,
			(uint64_t)&ring.used);
		header = (struct block_header){.type = VIRTIO_BLK_T_IN};
		queue_add(&q,
			(struct segment[]){{&header, 16, false}, {large, sizeof(large), true},
				{data, 1, true}},
			3);
		set_reg(&d, VIRTIO_MMIO_STATUS, 15);
		queue_notify(&q);
	}
	end_race();
	check_works(SLOT_DISK);
}

const struct guest_test guest_tests[] = {
	{"loop", test_loop},
	{"next-out-of-range", test_next_out_of_range},
	{"head-out-of-range", test_head_out_of_range},
	{"address-outside", test_address_outside},
	{"length-zero", test_length_zero},
	{"wrong-order", test_wrong_order},
	{"indirect-size", test_indirect_size},
	{"indirect-outside", test_indirect_outside},
	{"indirect-nested", test_indirect_nested},
	{"indirect-chain", test_indirect_chain},
	{"indirect-not-negotiated", test_indirect_not_negotiated},
	{"indirect-huge", test_indirect_huge},
	{"index-jump", test_index_jump},
	{"no-status", test_no_status},
	{"write-over-rings", test_write_over_rings},
	{"endless-queue", test_endless_queue},
	{"long-requests", test_long_requests},
	{"queue-size", test_queue_size},
	{"queue-address", test_queue_address},
	{"queue-at-the-end", test_queue_at_the_end},
	{"status-order", test_status_order},
	{"no-queues", test_no_queues},
	{"no-such-queue", test_no_such_queue},
	{"notify-early", test_notify_early},
	{"move-queue", test_move_queue},
	{"race", test_race},
	{"reset-in-flight", test_reset_in_flight},
	{0},
};
