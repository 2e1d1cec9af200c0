/* What has to survive a snapshot. Every test announces stage 1 when it may be taken. */
#include "driver.h"

enum {
	VECTOR = 0x50,
	DISK_PIN = SLOT_GSI + SLOT_DISK,
	MASKED = 1 << 16,
	SECTOR = 512,
	DISK_SECTORS = 16384,
	PAGE = 4096,
	OWN_SECTOR = 300,
	PIECES = 16, /* sectors of one request of the busy test */
};

static struct ring ring, other_ring;
static uint8_t data[16 * SECTOR] __attribute__((aligned(4096)));
static uint8_t back[16 * SECTOR] __attribute__((aligned(4096)));

static uint8_t disk_io(struct block *b, uint32_t type, uint64_t sector, uint8_t *p)
{
	return block_request(b, type, sector, p, SECTOR);
}

/* --- memory and devices --- */

static uint64_t *first_page(void)
{
	return (uint64_t *)(((uint64_t)guest_end + PAGE - 1) & ~(uint64_t)(PAGE - 1));
}

static uint64_t *memory_end(void)
{
	return (uint64_t *)(uint64_t)(64 << 20);
}

/* Every third page stays untouched: a hole in the snapshot. */
static void fill_memory(void)
{
	for (uint64_t *p = first_page(); p < memory_end(); p += PAGE / 8)
		if ((uint64_t)p / PAGE % 3)
			for (unsigned i = 0; i < PAGE / 8; i += 64)
				p[i] = (uint64_t)(p + i) * 0x9e3779b97f4a7c15;
}

static void check_memory(void)
{
	for (uint64_t *p = first_page(); p < memory_end(); p += PAGE / 8)
		for (unsigned i = 0; i < PAGE / 8; i += 64)
			EQUAL(p[i], (uint64_t)p / PAGE % 3 ? (uint64_t)(p + i) * 0x9e3779b97f4a7c15
							   : 0);
}

static void random_bytes(struct queue *q, uint8_t *p, uint32_t n)
{
	uint16_t head;
	uint32_t len;

	queue_add(q, &(struct segment){p, n, true}, 1);
	queue_notify(q);
	CHECK(queue_take(q, &head, &len));
	EQUAL(len, n);
}

/* Writes a value that the harness chose to memory and disk; finds it there when all siblings have
 * done so. */
static void own_value(struct block *b)
{
	uint64_t *p = first_page(), value = MAILBOX->value;

	p[0] = value;
	memcpy(data, &value, sizeof(value));
	EQUAL(disk_io(b, VIRTIO_BLK_T_OUT, OWN_SECTOR, data), VIRTIO_BLK_S_OK);
	mailbox_wait(2);
	EQUAL(p[0], value);
	EQUAL(disk_io(b, VIRTIO_BLK_T_IN, OWN_SECTOR, back), VIRTIO_BLK_S_OK);
	CHECK(memcmp(back, data, SECTOR) == 0);
}

static void test_memory(void)
{
	struct block b;
	struct device d;
	struct queue q;

	apic_enable();
	ioapic_write(DISK_PIN, VECTOR);
	block_open(&b, SLOT_DISK, 0, &ring);
	device_open(&d, SLOT_RNG, 0);
	queue_open(&q, &d, 0, &other_ring);
	device_start(&d);
	random_bytes(&q, back, 64);
	memset(data, 0x5c, sizeof(data));
	EQUAL(disk_io(&b, VIRTIO_BLK_T_OUT, 40, data), VIRTIO_BLK_S_OK);
	CHECK(interrupt_arrives(VECTOR, 1));
	set_reg(&b.device, VIRTIO_MMIO_INTERRUPT_ACK, 1);
	fill_memory();
	mailbox_wait(1);
	check_memory();
	EQUAL(ioapic_read(DISK_PIN), VECTOR);
	EQUAL(disk_io(&b, VIRTIO_BLK_T_IN, 40, back), VIRTIO_BLK_S_OK);
	CHECK(memcmp(back, data, SECTOR) == 0);
	CHECK(interrupt_arrives(VECTOR, 2));
	random_bytes(&q, back, 64);
	memcpy((void *)&MAILBOX[1], back, 64); /* the harness compares it with the sibling's */
	own_value(&b);
}

/* --- registers --- */

struct registers {
	uint64_t general[16];
	uint8_t vector[16][32];
	double x87;
	uint32_t mxcsr, zero;
	uint64_t flags;
};
extern struct registers registers_in, registers_out;
extern uint32_t guest_has_avx;
void hold_registers(void);

/* Emulated hosts lose what the guest enabled at its first exit (QEMU does not intercept XSETBV). */
static bool avx_is_enabled(void)
{
	uint32_t low, high;

	if (!guest_has_avx)
		return false;
	print("an exit\n");
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	print("XCR0 0x%x\n", (uint64_t)low);
	return (low & 6) == 6;
}

static void test_registers(void)
{
	guest_has_avx = avx_is_enabled();
	for (unsigned i = 0; i < 16; i++) {
		registers_in.general[i] = random64();
		for (unsigned k = 0; k < 32; k++)
			registers_in.vector[i][k] = (uint8_t)random64();
	}
	registers_in.x87 = 1.0 / 3;
	registers_in.mxcsr = 0x7f80; /* rounds towards zero */
	hold_registers();
	for (unsigned i = 0; i < 16; i++) {
		EQUAL(registers_out.general[i], registers_in.general[i]);
		EQUAL(memcmp(registers_out.vector[i], registers_in.vector[i],
			      guest_has_avx ? 32 : 16),
			0);
	}
	CHECK(memcmp(&registers_out.x87, &registers_in.x87, 8) == 0);
	EQUAL(registers_out.mxcsr, registers_in.mxcsr);
	EQUAL(registers_out.flags & 0x400, 0x400); /* direction */
	print("vectors of %u bytes\n", guest_has_avx ? UINT64_C(32) : UINT64_C(16));
}

/* --- requests and interrupts that the snapshot caught on their way --- */

/* Made available, but the device has not been told. */
static void test_in_flight(void)
{
	struct block_header header = {.type = VIRTIO_BLK_T_IN, .sector = 33};
	volatile uint8_t status = 0xff;
	struct block b;
	uint16_t head;
	uint32_t len;

	apic_enable();
	ioapic_write(DISK_PIN, VECTOR);
	block_open(&b, SLOT_DISK, 0, &ring);
	queue_add(&b.queue,
		(struct segment[]){
			{&header, sizeof(header), false}, {back, SECTOR, true}, {&status, 1, true}},
		3);
	mailbox_wait(1);
	CHECK(queue_take(&b.queue, &head, &len));
	EQUAL(status, VIRTIO_BLK_S_OK);
	EQUAL(*(uint64_t *)(void *)back, 33);
	CHECK(interrupt_arrives(VECTOR, 1));
}

static void test_masked(void)
{
	struct block b;

	apic_enable();
	ioapic_write(DISK_PIN, MASKED | VECTOR);
	block_open(&b, SLOT_DISK, 0, &ring);
	EQUAL(disk_io(&b, VIRTIO_BLK_T_IN, 0, back), VIRTIO_BLK_S_OK);
	mailbox_wait(1);
	EQUAL(interrupt_count[VECTOR], 0);
	EQUAL(reg(&b.device, VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_VRING);
	ioapic_write(DISK_PIN, VECTOR);
	CHECK(interrupt_arrives(VECTOR, 1));
}

/* A periodic timer goes on. */
static void test_timer(void)
{
	uint32_t before;

	apic_enable();
	apic_write(0x3e0, 0xb);
	apic_write(0x320, 1 << 17 | VECTOR);
	apic_write(0x380, 5000000);
	while (interrupt_count[VECTOR] < 2)
		cpu_relax();
	mailbox_wait(1);
	before = interrupt_count[VECTOR];
	while (interrupt_count[VECTOR] < before + 3)
		cpu_relax();
}

/* The counter goes on where it was, in the guest's first second too. */
static void test_counter(void)
{
	uint64_t begin = cycles(), before;

	while (cycles() - begin < 200000000)
		cpu_relax();
	before = cycles();
	mailbox_wait(1);
	print("%u at the snapshot, %u after it\n", before, cycles());
	CHECK(cycles() > before);
}

/* --- a disk that became larger --- */

static void test_grow(void)
{
	struct block b;
	uint64_t new_sectors;
	uint32_t generation;

	apic_enable();
	ioapic_write(DISK_PIN, VECTOR);
	block_open(&b, SLOT_DISK, 0, &ring);
	EQUAL(block_capacity(&b), DISK_SECTORS);
	EQUAL(disk_io(&b, VIRTIO_BLK_T_OUT, DISK_SECTORS, data), VIRTIO_BLK_S_IOERR);
	CHECK(interrupt_arrives(VECTOR, 1));
	set_reg(&b.device, VIRTIO_MMIO_INTERRUPT_ACK, 1);
	generation = reg(&b.device, VIRTIO_MMIO_CONFIG_GENERATION);
	mailbox_wait(1);
	new_sectors = MAILBOX->value;
	CHECK(interrupt_arrives(VECTOR, 2));
	EQUAL(reg(&b.device, VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_CONFIG);
	CHECK(reg(&b.device, VIRTIO_MMIO_CONFIG_GENERATION) != generation);
	EQUAL(block_capacity(&b), new_sectors);
	EQUAL(disk_io(&b, VIRTIO_BLK_T_OUT, new_sectors - 1, data), VIRTIO_BLK_S_OK);
	EQUAL(disk_io(&b, VIRTIO_BLK_T_OUT, new_sectors, data), VIRTIO_BLK_S_IOERR);
}

/* --- several CPUs --- */

static volatile uint64_t steps[GUEST_CPUS];

static void step(void)
{
	unsigned cpu = cpu_index();

	for (;;)
		steps[cpu]++;
}

static void test_smp(void)
{
	uint64_t before[GUEST_CPUS];

	for (unsigned i = 1; i < guest_argument; i++)
		cpu_start(i, step);
	mailbox_wait(1);
	for (unsigned i = 1; i < guest_argument; i++) {
		before[i] = steps[i];
		while (steps[i] < before[i] + 1000000)
			cpu_relax();
	}
}

/* --- snapshots at any moment --- */

static void draw_random(void)
{
	static uint8_t bytes[64];
	struct device d;
	struct queue q;

	device_open(&d, SLOT_RNG, 0);
	queue_open(&q, &d, 0, &other_ring);
	device_start(&d);
	for (;;)
		random_bytes(&q, bytes, sizeof(bytes));
}

/* Reads, writes and compares until the harness has seen enough. */
static void test_busy(void)
{
	struct block b;

	cpu_start(1, draw_random);
	block_open(&b, SLOT_DISK, UINT64_C(1) << VIRTIO_F_RING_EVENT_IDX, &ring);
	MAILBOX->stage = 1;
	for (uint32_t i = 0; MAILBOX->answer != 1; i++) {
		uint64_t sector = random64() % (DISK_SECTORS - PIECES);

		for (unsigned k = 0; k < sizeof(data); k += 8)
			*(uint64_t *)(void *)(data + k) = random64();
		EQUAL(block_request(&b, VIRTIO_BLK_T_OUT, sector, data, sizeof(data)),
			VIRTIO_BLK_S_OK);
		EQUAL(block_request(&b, VIRTIO_BLK_T_IN, sector, back, sizeof(back)),
			VIRTIO_BLK_S_OK);
		CHECK(memcmp(data, back, sizeof(data)) == 0);
		if (i % 8 == 0)
			EQUAL(block_request(&b, VIRTIO_BLK_T_FLUSH, 0, NULL, 0), VIRTIO_BLK_S_OK);
		MAILBOX->beat++;
	}
}

/* --- chains of snapshots: memory and disk change between them --- */

enum { SCATTER_SECTORS = 1024 };
static uint64_t expected[(64 << 20) / PAGE], expected_sector[SCATTER_SECTORS];
static uint64_t scatter_seed = 1;

static uint64_t scatter_random(void)
{
	scatter_seed = scatter_seed * 6364136223846793005 + 1442695040888963407;
	return scatter_seed >> 16;
}

static uint64_t *page_at(uint64_t i)
{
	return first_page() + i * (PAGE / 8);
}

static uint64_t scatter_pages(void)
{
	return (uint64_t)(memory_end() - first_page()) / (PAGE / 8);
}

/* One page in eight becomes zeroes. */
static void scatter(struct block *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t page = scatter_random() % scatter_pages();
		uint64_t v = scatter_random() % 8 ? scatter_random() : 0;

		for (unsigned k = 0; k < PAGE / 8; k += 64)
			page_at(page)[k] = v;
		expected[page] = v;
	}
	for (unsigned i = 0; i < 8; i++) {
		uint64_t sector = scatter_random() % SCATTER_SECTORS;

		expected_sector[sector] = scatter_random();
		memcpy(data, &expected_sector[sector], 8);
		EQUAL(disk_io(b, VIRTIO_BLK_T_OUT, sector, data), VIRTIO_BLK_S_OK);
	}
}

static void check_scattered(struct block *b)
{
	for (uint64_t i = 0; i < scatter_pages(); i++)
		for (unsigned k = 0; k < PAGE / 8; k += 64)
			EQUAL(page_at(i)[k], expected[i]);
	for (uint64_t i = 0; i < SCATTER_SECTORS; i += PIECES) {
		EQUAL(block_request(b, VIRTIO_BLK_T_IN, i, back, sizeof(back)), VIRTIO_BLK_S_OK);
		for (uint64_t k = 0; k < PIECES; k++)
			EQUAL(*(uint64_t *)(void *)(back + k * SECTOR), expected_sector[i + k]);
	}
}

/* At each stage the harness says how many pages to write (low half) and adds to the seed (high
 * half); 0 ends. */
static void test_scatter(void)
{
	struct block b;

	block_open(&b, SLOT_DISK, 0, &ring);
	for (uint64_t i = 0; i < SCATTER_SECTORS; i++)
		expected_sector[i] = i;
	for (uint32_t stage = 1;; stage++) {
		mailbox_wait(stage);
		check_scattered(&b);
		if (MAILBOX->value == 0)
			return;
		scatter_seed += MAILBOX->value >> 32;
		scatter(&b, (uint32_t)MAILBOX->value);
	}
}

/* Every CPU writes pairs of pages, the first of a pair first: at any moment the second is as far as
 * the first or one behind. The pairs of a CPU follow each other from the first free page on. */
enum { STORM_PAIRS = 128 };

static void storm(void)
{
	volatile uint64_t *p = page_at((uint64_t)cpu_index() * 2 * STORM_PAIRS);

	for (uint64_t v = 1;; v++)
		for (unsigned i = 0; i < STORM_PAIRS; i++) {
			p[2 * i * (PAGE / 8)] = v;
			p[(2 * i + 1) * (PAGE / 8)] = v;
		}
}

static void test_storm(void)
{
	for (unsigned i = 1; i < guest_argument; i++)
		cpu_start(i, storm);
	MAILBOX->value = (uint64_t)first_page();
	MAILBOX->stage = 1;
	storm();
}

/* Writes the same pages over and over, leaving for the VMM now and then: what the benchmark of
 * snapshots runs. Argument: how many pages, and (times a million) how many others lie between two.
 */
static void test_pages(void)
{
	uint64_t count = guest_argument % 1000000, step = guest_argument / 1000000 + 1;

	for (;;) {
		for (uint64_t i = 0; i < count; i++) {
			page_at(i * step)[1]++;
			if (i % 16 == 0)
				outb(0x80, 0);
		}
		MAILBOX->beat++;
	}
}

/* Waits long enough for a snapshot to be taken, writes that many pages, leaves for the VMM once,
 * and comes to rest: a parent of forks. */
static void test_rest(void)
{
	uint64_t end = cycles() + UINT64_C(5000000000);

	while (cycles() < end)
		cpu_relax();
	for (uint64_t i = 0; i < guest_argument; i++)
		page_at(i)[1]++;
	outb(0x80, 0);
	halt();
}

/* Leaves for the VMM all the time: what the restore benchmark runs. */
static void test_exits(void)
{
	MAILBOX->stage = 1;
	for (;;)
		outb(0x80, 0);
}

const struct guest_test guest_tests[] = {
	{"memory", test_memory},
	{"registers", test_registers},
	{"in-flight", test_in_flight},
	{"masked", test_masked},
	{"timer", test_timer},
	{"counter", test_counter},
	{"grow", test_grow},
	{"smp", test_smp},
	{"busy", test_busy},
	{"scatter", test_scatter},
	{"storm", test_storm},
	{"pages", test_pages},
	{"rest", test_rest},
	{"exits", test_exits},
	{0},
};
