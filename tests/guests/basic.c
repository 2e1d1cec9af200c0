/* Boot protocol, ACPI tables, serial port, interrupts, further CPUs. */
#include "driver.h"

enum { VECTOR = 0x50, DISK_PIN = SLOT_GSI + SLOT_DISK, MASKED = 1 << 16, SECTOR = 512 };

static struct ring ring;
static uint8_t data[4096] __attribute__((aligned(4096)));

static void test_boot(void)
{
	const struct boot_params *b = guest_boot_params;
	uint64_t ram = 0;

	EQUAL(b->hdr.header, 0x53726448);
	CHECK(memcmp((const char *)(uint64_t)b->hdr.cmd_line_ptr, "boot 42", 8) == 0);
	EQUAL(guest_argument, 42);
	for (unsigned i = 0; i < b->e820_entries; i++) {
		print("memory: 0x%x + 0x%x type %u\n", b->e820_table[i].addr, b->e820_table[i].size,
			(uint64_t)b->e820_table[i].type);
		if (b->e820_table[i].type == 1)
			ram += b->e820_table[i].size;
	}
	CHECK(ram > 60 << 20 && ram <= 64 << 20);
	*(volatile uint64_t *)((64 << 20) - 8) = 1; /* memory goes up to its end */
	print("hello from ring 3\n");
}

/* --- ACPI --- */

struct table {
	char signature[4];
	uint32_t bytes;
	uint8_t revision, checksum;
	char oem[6], oem_table[8];
	uint32_t oem_revision, creator, creator_revision;
} __attribute__((packed));

static void check_sum(const void *p, uint32_t n)
{
	const uint8_t *b = p;
	uint8_t sum = 0;

	while (n--)
		sum = (uint8_t)(sum + *b++);
	EQUAL(sum, 0);
}

static uint64_t unaligned64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void check_madt(const struct table *t)
{
	const uint8_t *p = (const uint8_t *)t + sizeof(*t) + 8,
		      *end = (const uint8_t *)t + t->bytes;
	unsigned cpus = 0, ioapics = 0;

	for (; p < end; p += p[1]) {
		CHECK(p[1] >= 2);
		cpus += p[0] == 0 && p[4] & 1;
		ioapics += p[0] == 1;
	}
	EQUAL((uint64_t)p, (uint64_t)end);
	EQUAL(cpus, guest_argument);
	EQUAL(ioapics, 1);
}

static void check_fadt(const struct table *t)
{
	const uint8_t *p = (const uint8_t *)t;
	const struct table *dsdt = (const struct table *)unaligned64(p + 140);

	CHECK(t->bytes >= 244);
	CHECK(p[112 + 2] & 0x10); /* flags bit 20: hardware-reduced */
	EQUAL(memcmp(dsdt->signature, "DSDT", 4), 0);
	check_sum(dsdt, dsdt->bytes);
	CHECK(dsdt->bytes > sizeof(*dsdt));
}

static void test_acpi(void)
{
	const uint8_t *rsdp = (const uint8_t *)guest_boot_params->acpi_rsdp_addr;
	const struct table *xsdt;
	unsigned seen = 0;

	EQUAL(memcmp(rsdp, "RSD PTR ", 8), 0);
	check_sum(rsdp, 20);
	check_sum(rsdp, 36);
	xsdt = (const struct table *)unaligned64(rsdp + 24);
	EQUAL(memcmp(xsdt->signature, "XSDT", 4), 0);
	check_sum(xsdt, xsdt->bytes);
	for (uint32_t at = sizeof(*xsdt); at < xsdt->bytes; at += 8) {
		const struct table *t =
			(const struct table *)unaligned64((const uint8_t *)xsdt + at);

		check_sum(t, t->bytes);
		if (memcmp(t->signature, "APIC", 4) == 0) {
			check_madt(t);
			seen |= 1;
		} else if (memcmp(t->signature, "FACP", 4) == 0) {
			check_fadt(t);
			seen |= 2;
		}
	}
	EQUAL(seen, 3);
}

/* --- serial port --- */

static void test_serial(void)
{
	static const char line[] = "one string instruction\n";
	const char *p = line;
	size_t n = sizeof(line) - 1;

	outb(0x3ff, 0x5a);
	EQUAL(inb(0x3ff), 0x5a);
	outb(0x3fc, 0x10 | 0x0a); /* loop-back: outputs come back as inputs */
	EQUAL(inb(0x3fe) & 0xf0, 0x90);
	outb(0x3fc, 0x0b);
	EQUAL(inb(0x3fd) & 0x60, 0x60);
	__asm__ volatile("rep outsb" : "+S"(p), "+c"(n) : "d"(0x3f8) : "memory");
	EQUAL(n, 0);
}

static void test_serial_interrupt(void)
{
	apic_enable();
	ioapic_write(4, VECTOR);
	outb(0x3fc, 0x08);
	outb(0x3f9, 0x02); /* transmitter empty */
	CHECK(interrupt_arrives(VECTOR, 1));
	EQUAL(inb(0x3fa) & 0x0f, 0x02);
	EQUAL(inb(0x3fa) & 0x0f, 0x01);
	outb(0x3f8, '\n');
	CHECK(interrupt_arrives(VECTOR, 2));
}

/* --- interrupts --- */

static uint8_t read_sector(struct block *b)
{
	return block_request(b, VIRTIO_BLK_T_IN, 1, data, SECTOR);
}

static void test_interrupt(void)
{
	struct block b;

	apic_enable();
	ioapic_write(DISK_PIN, VECTOR);
	EQUAL(ioapic_read(DISK_PIN), VECTOR);
	block_open(&b, SLOT_DISK, 0, &ring);
	for (uint32_t i = 1; i <= 10; i++) {
		EQUAL(read_sector(&b), VIRTIO_BLK_S_OK);
		CHECK(interrupt_arrives(VECTOR, i));
		EQUAL(reg(&b.device, VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_VRING);
		set_reg(&b.device, VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INT_VRING);
		EQUAL(reg(&b.device, VIRTIO_MMIO_INTERRUPT_STATUS), 0);
	}
	ring.avail.flags = VIRTQ_AVAIL_F_NO_INTERRUPT;
	EQUAL(read_sector(&b), VIRTIO_BLK_S_OK);
	EQUAL(interrupt_count[VECTOR], 10);
	EQUAL(reg(&b.device, VIRTIO_MMIO_INTERRUPT_STATUS), 0);
}

/* An edge on a masked pin comes when it is unmasked. */
static void test_masked(void)
{
	struct block b;

	apic_enable();
	ioapic_write(DISK_PIN, MASKED | VECTOR);
	block_open(&b, SLOT_DISK, 0, &ring);
	EQUAL(read_sector(&b), VIRTIO_BLK_S_OK);
	EQUAL(read_sector(&b), VIRTIO_BLK_S_OK);
	EQUAL(interrupt_count[VECTOR], 0);
	ioapic_write(DISK_PIN, VECTOR);
	CHECK(interrupt_arrives(VECTOR, 1));
}

/* With EVENT_IDX the driver says which used entry it wants to hear of. */
static void test_event_index(void)
{
	struct block b;

	apic_enable();
	ioapic_write(DISK_PIN, VECTOR);
	block_open(&b, SLOT_DISK, UINT64_C(1) << VIRTIO_F_RING_EVENT_IDX, &ring);
	CHECK(b.device.features >> VIRTIO_F_RING_EVENT_IDX & 1);
	ring.avail.used_event = 2; /* the third */
	for (unsigned i = 0; i < 2; i++)
		EQUAL(read_sector(&b), VIRTIO_BLK_S_OK);
	EQUAL(interrupt_count[VECTOR], 0);
	EQUAL(read_sector(&b), VIRTIO_BLK_S_OK);
	CHECK(interrupt_arrives(VECTOR, 1));
	EQUAL(read_sector(&b), VIRTIO_BLK_S_OK);
	EQUAL(interrupt_count[VECTOR], 1);
	EQUAL(ring.used.avail_event, 4); /* the device wants to hear of the next chain */
}

static void test_apic_timer(void)
{
	apic_enable();
	apic_write(0x3e0, 0xb); /* divide by 1 */
	apic_write(0x320, VECTOR);
	apic_write(0x380, 100000);
	CHECK(interrupt_arrives(VECTOR, 1));
}

/* --- further CPUs --- */

static volatile uint32_t shared, seen_cpus;

static void count(void)
{
	__atomic_fetch_or(&seen_cpus, 1u << cpu_index(), __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < 100000; i++)
		__atomic_fetch_add(&shared, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&shared, 1 << 24, __ATOMIC_SEQ_CST); /* done */
}

static void test_smp(void)
{
	uint32_t others = (uint32_t)guest_argument - 1;

	for (unsigned i = 1; i <= others; i++)
		cpu_start(i, count);
	while (shared >> 24 != others)
		cpu_relax();
	EQUAL(shared & 0xffffff, 100000 * others);
	EQUAL(seen_cpus, (1u << guest_argument) - 2);
}

static volatile uint32_t go;

static void wait_interrupt(void)
{
	apic_enable();
	go = 1;
}

/* The disk's interrupt is routed to the second CPU, and one goes from CPU to CPU. */
static void test_smp_interrupt(void)
{
	struct block b;

	cpu_start(1, wait_interrupt);
	while (!go)
		cpu_relax();
	ioapic_write(DISK_PIN, UINT64_C(1) << 56 | VECTOR);
	block_open(&b, SLOT_DISK, 0, &ring);
	EQUAL(read_sector(&b), VIRTIO_BLK_S_OK);
	CHECK(interrupt_arrives(VECTOR, 1));
	apic_write(0x310, 1 << 24);
	apic_write(0x300, VECTOR + 1);
	CHECK(interrupt_arrives(VECTOR + 1, 1));
}

const struct guest_test guest_tests[] = {
	{"boot", test_boot},
	{"acpi", test_acpi},
	{"serial", test_serial},
	{"serial-interrupt", test_serial_interrupt},
	{"interrupt", test_interrupt},
	{"masked-interrupt", test_masked},
	{"event-index", test_event_index},
	{"apic-timer", test_apic_timer},
	{"smp", test_smp},
	{"smp-interrupt", test_smp_interrupt},
	{0},
};
