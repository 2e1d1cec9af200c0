/* Block and entropy devices, used as a well-behaved driver does. */
#include "driver.h"

enum { SECTOR = 512, DISK_SECTORS = 16384, RANDOM_MAX = 65536 };
#define BIT(n) (UINT64_C(1) << (n))

static struct ring ring;
static uint8_t data[65536] __attribute__((aligned(4096)));
static uint8_t back[65536] __attribute__((aligned(4096)));

static void fill(uint8_t *p, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		uint64_t v = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ seed;

		memcpy(p + i, &v, 8);
	}
}

/* --- entropy --- */

static uint32_t random_bytes(struct queue *q, uint8_t *p, uint32_t n)
{
	struct segment s = {p, n, true};
	uint16_t head, done;
	uint32_t len;

	head = queue_add(q, &s, 1);
	queue_notify(q);
	CHECK(queue_take(q, &done, &len));
	EQUAL(done, head);
	return len;
}

static void test_rng(void)
{
	struct device d;
	struct queue q;
	unsigned zeroes = 0;

	device_open(&d, SLOT_RNG, 0);
	EQUAL(reg(&d, VIRTIO_MMIO_DEVICE_ID), 4);
	queue_open(&q, &d, 0, &ring);
	device_start(&d);
	EQUAL(random_bytes(&q, data, 64), 64);
	EQUAL(random_bytes(&q, data + 64, 64), 64);
	CHECK(memcmp(data, data + 64, 64) != 0);
	for (unsigned i = 0; i < 128; i++)
		zeroes += data[i] == 0;
	CHECK(zeroes < 16);
	EQUAL(data[128], 0);
	EQUAL(random_bytes(&q, data, sizeof(data)), RANDOM_MAX);
	EQUAL(reg(&d, VIRTIO_MMIO_STATUS), 15);
}

/* --- block --- */

static void test_read_write(void)
{
	struct block b;

	block_open(&b, SLOT_DISK, BIT(VIRTIO_BLK_F_FLUSH), &ring);
	EQUAL(block_capacity(&b), DISK_SECTORS);
	/* The harness put the sector's number into each sector's first bytes. */
	EQUAL(block_request(&b, VIRTIO_BLK_T_IN, 77, back, SECTOR), VIRTIO_BLK_S_OK);
	EQUAL(*(uint64_t *)(void *)back, 77);
	fill(data, sizeof(data), 1);
	EQUAL(block_request(&b, VIRTIO_BLK_T_OUT, 9, data, sizeof(data)), VIRTIO_BLK_S_OK);
	EQUAL(block_request(&b, VIRTIO_BLK_T_FLUSH, 0, NULL, 0), VIRTIO_BLK_S_OK);
	EQUAL(block_request(&b, VIRTIO_BLK_T_IN, 9, back, sizeof(back)), VIRTIO_BLK_S_OK);
	CHECK(memcmp(data, back, sizeof(data)) == 0);
	EQUAL(block_request(&b, VIRTIO_BLK_T_IN, 8, back, SECTOR), VIRTIO_BLK_S_OK);
	EQUAL(*(uint64_t *)(void *)back, 8);
	EQUAL(block_request(&b, VIRTIO_BLK_T_IN, DISK_SECTORS - 1, back, SECTOR), VIRTIO_BLK_S_OK);
	EQUAL(*(uint64_t *)(void *)back, DISK_SECTORS - 1);
	EQUAL(reg(&b.device, VIRTIO_MMIO_STATUS), 15);
}

static void test_get_id(void)
{
	struct block b;
	char id[VIRTIO_BLK_ID_BYTES + 1] = {0};

	block_open(&b, SLOT_DISK, 0, &ring);
	EQUAL(block_request(&b, VIRTIO_BLK_T_GET_ID, 0, id, VIRTIO_BLK_ID_BYTES), VIRTIO_BLK_S_OK);
	print("id: %s\n", id);
	EQUAL(memcmp(id, "disk0", 6), 0);
}

static void test_out_of_range(void)
{
	static const uint64_t sectors[] = {DISK_SECTORS, DISK_SECTORS - 1, UINT64_MAX,
		UINT64_MAX / SECTOR, UINT64_MAX / SECTOR + 1, BIT(55), BIT(63)};
	struct block b;

	block_open(&b, SLOT_DISK, 0, &ring);
	for (unsigned i = 0; i < ARRAY_SIZE(sectors); i++) {
		EQUAL(block_request(&b, VIRTIO_BLK_T_IN, sectors[i], back, 2 * SECTOR),
			VIRTIO_BLK_S_IOERR);
		EQUAL(block_request(&b, VIRTIO_BLK_T_OUT, sectors[i], data, 2 * SECTOR),
			VIRTIO_BLK_S_IOERR);
	}
	/* not whole sectors */
	EQUAL(block_request(&b, VIRTIO_BLK_T_IN, 0, back, 100), VIRTIO_BLK_S_IOERR);
	EQUAL(block_request(&b, VIRTIO_BLK_T_OUT, 0, data, 513), VIRTIO_BLK_S_IOERR);
	EQUAL(block_request(&b, 0x1234, 0, data, SECTOR), VIRTIO_BLK_S_UNSUPP);
	EQUAL(block_request(&b, VIRTIO_BLK_T_IN, 0, back, SECTOR), VIRTIO_BLK_S_OK);
}

static void test_read_only(void)
{
	struct block b;

	block_open(&b, SLOT_DISK + 1, BIT(VIRTIO_BLK_F_RO), &ring);
	CHECK(b.device.features & BIT(VIRTIO_BLK_F_RO));
	EQUAL(block_request(&b, VIRTIO_BLK_T_OUT, 0, data, SECTOR), VIRTIO_BLK_S_IOERR);
	EQUAL(block_request(&b, VIRTIO_BLK_T_IN, 5, back, SECTOR), VIRTIO_BLK_S_OK);
	EQUAL(*(uint64_t *)(void *)back, 5);
}

/* One request of 120 segments, far more than the ring has descriptors. */
static void test_indirect(void)
{
	enum { PIECES = 120 };
	struct block_header header = {.type = VIRTIO_BLK_T_OUT, .sector = 100};
	struct segment s[PIECES + 2] = {{&header, sizeof(header), false}};
	volatile uint8_t status = 0xff;
	struct block b;
	uint16_t head;
	uint32_t len;

	block_open(&b, SLOT_DISK, BIT(VIRTIO_F_RING_INDIRECT_DESC), &ring);
	CHECK(b.indirect);
	fill(data, sizeof(data), 2);
	for (unsigned i = 0; i < PIECES; i++)
		s[1 + i] = (struct segment){data + i * SECTOR, SECTOR, false};
	s[PIECES + 1] = (struct segment){&status, 1, true};
	queue_add_indirect(&b.queue, s, PIECES + 2);
	queue_notify(&b.queue);
	CHECK(queue_take(&b.queue, &head, &len));
	EQUAL(status, VIRTIO_BLK_S_OK);
	EQUAL(block_request(&b, VIRTIO_BLK_T_IN, 100, back, PIECES * SECTOR), VIRTIO_BLK_S_OK);
	CHECK(memcmp(data, back, PIECES * SECTOR) == 0);
}

/* Header and data in odd pieces: the framing is the driver's choice. */
static void test_odd_framing(void)
{
	static struct {
		struct block_header header;
		uint8_t data[SECTOR];
	} request = {.header = {.type = VIRTIO_BLK_T_OUT, .sector = 50}};
	uint8_t *p = (uint8_t *)&request;
	volatile uint8_t status = 0xff;
	struct segment s[] = {{p, 3, false}, {p + 3, 200, false}, {p + 203, 1, false},
		{p + 204, sizeof(request) - 204, false}, {&status, 1, true}};
	struct block b;
	uint16_t head;
	uint32_t len;

	block_open(&b, SLOT_DISK, 0, &ring);
	fill(request.data, SECTOR, 3);
	queue_add(&b.queue, s, ARRAY_SIZE(s));
	queue_notify(&b.queue);
	CHECK(queue_take(&b.queue, &head, &len));
	EQUAL(status, VIRTIO_BLK_S_OK);
	EQUAL(block_request(&b, VIRTIO_BLK_T_IN, 50, back, SECTOR), VIRTIO_BLK_S_OK);
	CHECK(memcmp(request.data, back, SECTOR) == 0);
}

static uint8_t block_range(struct block *b, uint32_t type, uint64_t sector, uint32_t n)
{
	struct {
		uint64_t sector;
		uint32_t n, flags;
	} range = {sector, n, 0};

	return block_request(b, type, 0, &range, sizeof(range));
}

static void test_write_zeroes(void)
{
	static const uint8_t zero[SECTOR];
	struct block b;

	block_open(
		&b, SLOT_DISK, BIT(VIRTIO_BLK_F_WRITE_ZEROES) | BIT(VIRTIO_BLK_F_DISCARD), &ring);
	CHECK(b.device.features & BIT(VIRTIO_BLK_F_WRITE_ZEROES));
	fill(data, sizeof(data), 4);
	EQUAL(block_request(&b, VIRTIO_BLK_T_OUT, 200, data, 32 * SECTOR), VIRTIO_BLK_S_OK);
	EQUAL(block_range(&b, VIRTIO_BLK_T_WRITE_ZEROES, 203, 17), VIRTIO_BLK_S_OK);
	EQUAL(block_request(&b, VIRTIO_BLK_T_IN, 200, back, 32 * SECTOR), VIRTIO_BLK_S_OK);
	CHECK(memcmp(back, data, 3 * SECTOR) == 0);
	for (unsigned i = 3; i < 20; i++)
		CHECK(memcmp(back + i * SECTOR, zero, SECTOR) == 0);
	CHECK(memcmp(back + 20 * SECTOR, data + 20 * SECTOR, 12 * SECTOR) == 0);
	EQUAL(block_range(&b, VIRTIO_BLK_T_DISCARD, 200, 32), VIRTIO_BLK_S_OK);
	EQUAL(block_range(&b, VIRTIO_BLK_T_DISCARD, DISK_SECTORS, 1), VIRTIO_BLK_S_IOERR);
	EQUAL(block_range(&b, VIRTIO_BLK_T_WRITE_ZEROES, UINT64_MAX, 8), VIRTIO_BLK_S_IOERR);
}

/* A ring full of requests, offered at once, twice around so that indices wrap within the ring. */
static void test_many(void)
{
	static struct block_header headers[5];
	static volatile uint8_t status[5];
	struct block b;

	block_open(&b, SLOT_DISK, 0, &ring);
	fill(data, sizeof(data), 5);
	for (unsigned round = 0; round < 40; round++) {
		for (unsigned i = 0; i < 5; i++) {
			headers[i] = (struct block_header){
				.type = VIRTIO_BLK_T_OUT, .sector = round * 5 + i};
			status[i] = 0xff;
			queue_add(&b.queue,
				(struct segment[]){{&headers[i], sizeof(headers[i]), false},
					{data + i * SECTOR, SECTOR, false}, {&status[i], 1, true}},
				3);
		}
		queue_notify(&b.queue);
		for (unsigned i = 0; i < 5; i++) {
			uint16_t head;
			uint32_t len;

			CHECK(queue_take(&b.queue, &head, &len));
			EQUAL(status[i], VIRTIO_BLK_S_OK);
		}
	}
	EQUAL(block_request(&b, VIRTIO_BLK_T_IN, 195, back, 5 * SECTOR), VIRTIO_BLK_S_OK);
	CHECK(memcmp(back, data, 5 * SECTOR) == 0);
}

/* Both index fields of 16 bits wrap around; 65,536 chains in full rings. */
static void test_index_wrap(void)
{
	struct device d;
	struct queue q;

	device_open(&d, SLOT_RNG, 0);
	queue_open(&q, &d, 0, &ring);
	device_start(&d);
	for (unsigned round = 0; round < 65536 / QUEUE_SIZE + 2; round++) {
		for (unsigned i = 0; i < QUEUE_SIZE; i++)
			queue_add(&q, &(struct segment){data, 1, true}, 1);
		queue_notify(&q);
		for (unsigned i = 0; i < QUEUE_SIZE; i++) {
			uint16_t head;
			uint32_t len;

			CHECK(queue_take(&q, &head, &len));
			EQUAL(len, 1);
		}
	}
	EQUAL(reg(&d, VIRTIO_MMIO_STATUS), 15);
}

const struct guest_test guest_tests[] = {
	{"rng", test_rng},
	{"read-write", test_read_write},
	{"get-id", test_get_id},
	{"out-of-range", test_out_of_range},
	{"read-only", test_read_only},
	{"indirect", test_indirect},
	{"odd-framing", test_odd_framing},
	{"write-zeroes", test_write_zeroes},
	{"many", test_many},
	{"index-wrap", test_index_wrap},
	{0},
};
