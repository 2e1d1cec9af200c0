/* Accesses that no driver makes: registers at odd sizes and places, all ports, string instructions,
 * and guests that crash, hang or flood. */
#include "driver.h"

enum { SECTOR = 512, PORT_SLEEP = 0x600, PORT_RESET = 0x602, PORT_KEYBOARD = 0x64 };

static struct ring ring;
static uint8_t data[4096] __attribute__((aligned(4096)));

static void check_devices(void)
{
	struct device d;
	struct queue q;
	struct block b;
	uint16_t head;
	uint32_t len;

	block_open(&b, SLOT_DISK, 0, &ring);
	EQUAL(block_request(&b, VIRTIO_BLK_T_IN, 3, data, SECTOR), VIRTIO_BLK_S_OK);
	EQUAL(*(uint64_t *)(void *)data, 3);
	device_open(&d, SLOT_RNG, 0);
	queue_open(&q, &d, 0, &ring);
	device_start(&d);
	queue_add(&q, &(struct segment){data, 16, true}, 1);
	queue_notify(&q);
	CHECK(queue_take(&q, &head, &len));
	EQUAL(len, 16);
}

/* --- MMIO --- */

static void access(uint64_t at, unsigned bytes, bool write)
{
	uint64_t v = random64();

	switch (bytes) {
	case 1:
		if (write)
			*(volatile uint8_t *)at = (uint8_t)v;
		else
			(void)*(volatile uint8_t *)at;
		break;
	case 2:
		if (write)
			*(volatile uint16_t *)at = (uint16_t)v;
		else
			(void)*(volatile uint16_t *)at;
		break;
	case 4:
		if (write)
			*(volatile uint32_t *)at = (uint32_t)v;
		else
			(void)*(volatile uint32_t *)at;
		break;
	default:
		if (write)
			*(volatile uint64_t *)at = v;
		else
			(void)*(volatile uint64_t *)at;
		break;
	}
}

static void sweep(uint64_t page, uint64_t end, uint64_t step)
{
	for (uint64_t offset = 0; offset < end; offset += step)
		for (unsigned bytes = 1; bytes <= 8; bytes *= 2) {
			access(page + offset, bytes, false);
			access(page + offset, bytes, true);
		}
}

/* Every offset of the registers and of the configuration, samples of the rest of the page, and
 * accesses that reach into the next page. */
static void test_mmio_sizes(void)
{
	for (unsigned slot = 0; slot < SLOTS; slot++) {
		uint64_t page = SLOTS_AT + slot * SLOT_BYTES;

		sweep(page, 0x180, 1);
		sweep(page + 0x180, SLOT_BYTES - 0x180 - 16, 253);
		sweep(page + SLOT_BYTES - 8, 8, 1);
	}
	check_devices();
}

static void test_mmio_holes(void)
{
	static const uint64_t holes[] = {0xc0000000, 0xcffff000, SLOTS_AT + SLOTS * SLOT_BYTES,
		SLOTS_AT + 0x100000, 0xfebff000, 0xfec01000, 0xfed00000, 0xfffff000};

	for (unsigned i = 0; i < ARRAY_SIZE(holes); i++) {
		sweep(holes[i], SLOT_BYTES - 16, 509);
		EQUAL(*(volatile uint32_t *)holes[i], 0xffffffff);
	}
	check_devices();
}

/* Registers written in any order with any value, mostly plausible ones. */
static void test_mmio_random(void)
{
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t r = random64();
		uint64_t at = SLOTS_AT + (r % SLOTS) * SLOT_BYTES + (r >> 8) % 0x40 * 4;
		uint32_t v = (uint32_t)(r >> 32);

		if (r >> 20 & 1)
			v &= 0x1f;
		if (r >> 21 & 1)
			write32(at, v);
		else
			(void)read32(at);
	}
	check_devices();
}

/* Instructions that make more of an access than one read or write. */
static void test_mmio_instructions(void)
{
	uint64_t at = SLOTS_AT + SLOT_DISK * SLOT_BYTES;
	const void *from = (const void *)at;
	void *to = data;
	size_t n = 64;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	to = (void *)(at + 0x60);
	from = data;
	n = 64;
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	to = (void *)(at + 0x20);
	n = 8;
	__asm__ volatile("rep stosl" : "+D"(to), "+c"(n) : "a"(-1) : "memory");
	__asm__ volatile("lock incl (%0)" : : "r"(at + 0x70) : "memory");
	__asm__ volatile("xchgl %%eax, (%0)" : : "r"(at + 0x70) : "eax", "memory");
	__asm__ volatile("orl $0xff, (%0)" : : "r"(at + 0x70) : "memory");
	check_devices();
}

/* What KVM cannot take apart ends the guest with an error, which is its own loss. */
static void test_mmio_wide(void)
{
	__asm__ volatile("vmovdqu (%0), %%ymm0" : : "r"((uint64_t)SLOTS_AT) : "xmm0");
	__asm__ volatile("vmovdqu %%ymm0, (%0)" : : "r"((uint64_t)SLOTS_AT) : "memory");
}

static void test_execute_mmio(void)
{
	void (*f)(void) = (void (*)(void))(uint64_t)SLOTS_AT;

	f();
}

static void storm(void)
{
	for (unsigned i = 0; i < 4000; i++)
		write32(SLOTS_AT + SLOT_DISK * SLOT_BYTES + VIRTIO_MMIO_QUEUE_NOTIFY, 0);
}

static volatile uint32_t storms_over;

static void storm_and_count(void)
{
	storm();
	__atomic_fetch_add(&storms_over, 1, __ATOMIC_SEQ_CST);
}

static void test_mmio_storm(void)
{
	struct block b;

	block_open(&b, SLOT_DISK, 0, &ring);
	for (unsigned i = 1; i < guest_argument; i++)
		cpu_start(i, storm_and_count);
	storm();
	while (storms_over != guest_argument - 1)
		cpu_relax();
	check_devices();
}

/* --- interrupt controller and serial port --- */

static void test_ioapic(void)
{
	static const uint64_t at[] = {0xfec00000, 0xfec00010};

	for (unsigned i = 0; i < 4000; i++) {
		uint64_t r = random64();

		access(at[r & 1] + (r >> 1 & 1 ? r >> 8 & 0xff : 0), 1u << (r >> 2 & 3),
			r >> 4 & 1);
	}
	for (unsigned pin = 0; pin < 64; pin++)
		ioapic_write(pin, 1 << 16);
	check_devices();
}

/* Delivery modes that stop or reset the CPU: what the guest does to itself. */
static void test_ioapic_modes(void)
{
	struct block b;

	apic_enable();
	block_open(&b, SLOT_DISK, 0, &ring);
	for (unsigned mode = 0; mode < 8; mode++) {
		ioapic_write(SLOT_GSI + SLOT_DISK, mode << 8);
		(void)block_request(&b, VIRTIO_BLK_T_IN, 3, data, SECTOR);
		ioapic_write(SLOT_GSI + SLOT_DISK, UINT64_C(0xff) << 56 | mode << 8 | 0x60);
		(void)block_request(&b, VIRTIO_BLK_T_IN, 3, data, SECTOR);
	}
}

static void test_serial(void)
{
	for (unsigned i = 0; i < 8000; i++) {
		uint64_t r = random64();

		if (r & 1)
			(void)inb((uint16_t)(0x3f8 + (r >> 1) % 8));
		else
			outb((uint16_t)(0x3f8 + (r >> 1) % 8), (uint8_t)(r >> 8));
	}
	outb(0x3fb, 3);
	outb(0x3f9, 0);
	outb(0x3fc, 8);
	check_devices();
}

/* --- ports --- */

static bool ends_the_guest(unsigned port, unsigned bytes)
{
	return (port <= PORT_RESET && port + bytes > PORT_SLEEP) ||
	       (port <= PORT_KEYBOARD && port + bytes > PORT_KEYBOARD);
}

static void wide_port(uint16_t port)
{
	uint32_t v;

	__asm__ volatile("inw %1, %w0" : "=a"(v) : "d"(port));
	__asm__ volatile("inl %1, %0" : "=a"(v) : "d"(port));
	if (!ends_the_guest(port, 4)) {
		__asm__ volatile("outw %w0, %1" : : "a"(0x5a5a5a5a), "d"(port));
		__asm__ volatile("outl %0, %1" : : "a"(0x5a5a5a5a), "d"(port));
	}
}

static void test_ports(void)
{
	for (unsigned port = 0; port < 65536; port++) {
		if (port % 4 == guest_argument || port < 0x700) {
			(void)inb((uint16_t)port);
			if (!ends_the_guest(port, 1))
				outb((uint16_t)port, (uint8_t)port);
		}
		if (port < 0x80 || (port >= 0xfff0 && port < 0xfffd) ||
			(port >= 0x3f0 && port < 0x400) || (port >= 0x5f8 && port < 0x610) ||
			(port % 61 == 0 && port < 0xfffd))
			wide_port((uint16_t)port);
	}
	check_devices();
}

static void test_string_io(void)
{
	static const uint16_t ports[] = {0x3f8, 0x3fd, 0x64, 0x600, 0x1234};

	for (unsigned i = 0; i < ARRAY_SIZE(ports); i++) {
		const void *from = data;
		void *to = data;
		size_t n = 1000;

		memset(data, 0x40, sizeof(data)); /* at the sleep register: not asleep */
		if (ports[i] != 0x64)
			__asm__ volatile("rep outsb"
					 : "+S"(from), "+c"(n)
					 : "d"(ports[i])
					 : "memory");
		n = 1000;
		__asm__ volatile("rep insb" : "+D"(to), "+c"(n) : "d"(ports[i]) : "memory");
		to = data + 4092;
		n = 200;
		__asm__ volatile("std; rep insl; cld"
				 : "+D"(to), "+c"(n)
				 : "d"(ports[i])
				 : "memory");
	}
	check_devices();
}

/* String instructions between ports and registers of devices. */
static void test_string_io_mmio(void)
{
	void *to = (void *)(uint64_t)(SLOTS_AT + SLOT_DISK * SLOT_BYTES);
	const void *from = to;
	size_t n = 256;

	__asm__ volatile("rep insb" : "+D"(to), "+c"(n) : "d"(0x3fd) : "memory");
	n = 256;
	__asm__ volatile("rep outsb" : "+S"(from), "+c"(n) : "d"(0x3ff) : "memory");
	check_devices();
}

static void test_console_flood(void)
{
	const char *p = (const char *)data;
	size_t n = 10000;

	memset(data, 'x', sizeof(data));
	while (n--)
		outb(0x3f8, (uint8_t)p[n % sizeof(data)]);
}

/* --- ends --- */

extern uint8_t idt[4096];

static void test_triple_fault(void)
{
	memset(idt, 0, sizeof(idt));
	__asm__ volatile("ud2");
}

static void test_infinite_loop(void)
{
	MAILBOX->stage = 1;
	for (;;)
		;
}

static void test_reset(void)
{
	outb(PORT_RESET, 1);
	for (;;)
		;
}

static void test_keyboard_reset(void)
{
	outb(PORT_KEYBOARD, 0xfe);
	for (;;)
		;
}

/* --- vsock --- */

static struct ring vsock_rings[3];

/* Packets of any content and length, in both directions. */
static void test_vsock(void)
{
	static uint8_t packet[8192];
	struct device d;
	struct queue q[3];

	for (unsigned round = 0; round < 60; round++) {
		device_open(&d, SLOT_VSOCK, UINT64_C(1) << VIRTIO_F_RING_INDIRECT_DESC);
		for (unsigned i = 0; i < 3; i++)
			queue_open(&q[i], &d, i, &vsock_rings[i]);
		device_start(&d);
		for (unsigned i = 0; i < 30 && !device_is_broken(&d); i++) {
			struct virtio_vsock_hdr *h = (struct virtio_vsock_hdr *)(void *)packet;
			uint64_t r = random64();

			for (unsigned k = 0; k < sizeof(*h); k++)
				packet[k] = (uint8_t)random64();
			if (r & 1) {
				h->src_cid = 3;
				h->dst_cid = 2;
				h->type = 1;
				h->op = (uint16_t)(r >> 8 & 7);
			}
			h->len = r >> 1 & 1 ? (uint32_t)(r >> 16 & 0xfff) : h->len;
			queue_add(&q[VIRTIO_VSOCK_TX_QUEUE],
				&(struct segment){packet, 1 + (uint32_t)(r >> 32) % 5000,
					r >> 2 & 15 ? false : true},
				1);
			queue_add(&q[VIRTIO_VSOCK_RX_QUEUE],
				&(struct segment){data, 1 + (uint32_t)(r >> 40) % 300, true}, 1);
			queue_notify(&q[r >> 50 & 1]);
			queue_notify(&q[VIRTIO_VSOCK_TX_QUEUE]);
		}
	}
	device_open(&d, SLOT_VSOCK, 0);
	EQUAL(reg(&d, VIRTIO_MMIO_STATUS), 11);
	check_devices();
}

const struct guest_test guest_tests[] = {
	{"mmio-sizes", test_mmio_sizes},
	{"mmio-holes", test_mmio_holes},
	{"mmio-random", test_mmio_random},
	{"mmio-instructions", test_mmio_instructions},
	{"mmio-wide", test_mmio_wide},
	{"execute-mmio", test_execute_mmio},
	{"mmio-storm", test_mmio_storm},
	{"ioapic", test_ioapic},
	{"ioapic-modes", test_ioapic_modes},
	{"serial", test_serial},
	{"ports", test_ports},
	{"string-io", test_string_io},
	{"string-io-mmio", test_string_io_mmio},
	{"console-flood", test_console_flood},
	{"triple-fault", test_triple_fault},
	{"infinite-loop", test_infinite_loop},
	{"reset", test_reset},
	{"keyboard-reset", test_keyboard_reset},
	{"vsock", test_vsock},
	{0},
};
