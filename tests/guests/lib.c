#include "guest.h"

#include <stdarg.h>

enum { PORT_SERIAL = 0x3f8, PORT_POWER = 0x600 };
enum {
	APIC = 0xfee00000,
	APIC_ID = 0x20,
	APIC_SPURIOUS = 0xf0,
	APIC_ICR_LOW = 0x300,
	APIC_ICR_HIGH = 0x310,
	ICR_INIT = 0x4500,
	ICR_STARTUP = 0x4600,
};
#define IOAPIC 0xfec00000

struct boot_params *guest_boot_params;
uint64_t guest_argument;
uint32_t guest_has_avx;
volatile uint32_t interrupt_count[256], guest_halts;
volatile uint64_t exception_vector, exception_error, exception_rip, exception_address;
volatile uint32_t cpus_running, cpu_starting;
const volatile uint32_t *volatile idle_count; /* NULL: ud2 is an error */
volatile uint32_t idle_seen;
static void (*volatile cpu_function)(void);
extern const uint8_t trampoline[], trampoline_end[];

void guest_main(void);
void guest_exception(void);
void cpu_main(void);

/* --- the C library's part --- */

void *memcpy(void *to, const void *from, size_t n)
{
	void *r = to;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	return r;
}

void *memset(void *to, int c, size_t n)
{
	void *r = to;

	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(c) : "memory");
	return r;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const uint8_t *p = a, *q = b;

	for (; n; n--, p++, q++)
		if (*p != *q)
			return *p - *q;
	return 0;
}

size_t strlen(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

uint64_t random64(void)
{
	static uint64_t x = 0x2545f4914f6cdd1d;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* --- output --- */

static void put_number(uint64_t v, unsigned base)
{
	char digits[20];
	unsigned n = 0;

	do
		digits[n++] = "0123456789abcdef"[v % base];
	while (v /= base);
	while (n)
		outb(PORT_SERIAL, (uint8_t)digits[--n]);
}

void print(const char *f, ...)
{
	va_list args;

	va_start(args, f);
	for (; *f; f++) {
		if (*f != '%') {
			outb(PORT_SERIAL, (uint8_t)*f);
			continue;
		}
		if (*++f == 's')
			for (const char *s = va_arg(args, const char *); *s; s++)
				outb(PORT_SERIAL, (uint8_t)*s);
		else
			put_number(va_arg(args, uint64_t), *f == 'x' ? 16 : 10);
	}
	va_end(args);
}

_Noreturn void power_off(uint8_t value)
{
	for (;;)
		outb(PORT_POWER, value);
}

_Noreturn void skip(const char *why)
{
	print("skip: %s\n", why);
	power_off(GUEST_SKIPPED);
}

_Noreturn void guest_fail(const char *file, unsigned line, const char *what)
{
	print("%s:%u: %s\n", file, (uint64_t)line, what);
	power_off(GUEST_FAILED);
}

void guest_exception(void)
{
	print("exception %u (error 0x%x) at 0x%x, address 0x%x\n", exception_vector,
		exception_error, exception_rip, exception_address);
	power_off(GUEST_EXCEPTION);
}

/* --- start --- */

static uint64_t parse_number(const char *s)
{
	uint64_t v = 0;

	while (*s >= '0' && *s <= '9')
		v = v * 10 + (uint64_t)(*s++ - '0');
	return v;
}

void guest_main(void)
{
	const char *line = (const char *)(uint64_t)guest_boot_params->hdr.cmd_line_ptr;
	size_t n = 0;

	while (line[n] && line[n] != ' ')
		n++;
	if (line[n])
		guest_argument = parse_number(line + n + 1);
	for (const struct guest_test *t = guest_tests; t->name; t++)
		if (t->name[0] == '*' || (strlen(t->name) == n && memcmp(t->name, line, n) == 0)) {
			t->run();
			power_off(GUEST_PASSED);
		}
	print("no test of this name: %s\n", line);
	power_off(GUEST_FAILED);
}

void mailbox_wait(uint32_t stage)
{
	MAILBOX->stage = stage;
	while (MAILBOX->answer != stage)
		cpu_relax();
}

/* --- interrupts --- */

uint32_t apic_read(uint32_t reg)
{
	return read32(APIC + reg);
}

void apic_write(uint32_t reg, uint32_t v)
{
	write32(APIC + reg, v);
}

void apic_enable(void)
{
	apic_write(APIC_SPURIOUS, 0x1ff);
}

uint64_t ioapic_read(unsigned pin)
{
	uint64_t v;

	write32(IOAPIC, 0x11 + 2 * pin);
	v = (uint64_t)read32(IOAPIC + 0x10) << 32;
	write32(IOAPIC, 0x10 + 2 * pin);
	return v | read32(IOAPIC + 0x10);
}

/* The low word, which holds the mask, last. */
void ioapic_write(unsigned pin, uint64_t entry)
{
	write32(IOAPIC, 0x11 + 2 * pin);
	write32(IOAPIC + 0x10, (uint32_t)(entry >> 32));
	write32(IOAPIC, 0x10 + 2 * pin);
	write32(IOAPIC + 0x10, (uint32_t)entry);
}

bool interrupt_arrives(uint8_t vector, uint32_t count)
{
	uint64_t end = cycles() + 2000000000;

	while (interrupt_count[vector] < count && cycles() < end)
		cpu_relax();
	return interrupt_count[vector] == count;
}

void interrupt_wait(uint8_t vector, uint32_t seen)
{
	idle_count = &interrupt_count[vector];
	idle_seen = seen;
	__asm__ volatile("ud2" : : : "memory"); /* start.S: idle */
}

/* --- further CPUs --- */

unsigned cpu_index(void)
{
	return apic_read(APIC_ID) >> 24;
}

void cpu_main(void)
{
	void (*run)(void) = cpu_function;

	__atomic_fetch_add(&cpus_running, 1, __ATOMIC_SEQ_CST);
	run();
	for (;;)
		cpu_relax();
}

void cpu_start(unsigned cpu, void (*run)(void))
{
	uint32_t before = cpus_running;
	uint64_t end = cycles() + 4000000000;

	memcpy((void *)GUEST_TRAMPOLINE, trampoline, (size_t)(trampoline_end - trampoline));
	cpu_starting = cpu;
	cpu_function = run;
	apic_enable();
	apic_write(APIC_ICR_HIGH, cpu << 24);
	apic_write(APIC_ICR_LOW, ICR_INIT);
	apic_write(APIC_ICR_HIGH, cpu << 24);
	apic_write(APIC_ICR_LOW, ICR_STARTUP | GUEST_TRAMPOLINE >> 12);
	while (cpus_running == before && cycles() < end)
		cpu_relax();
	CHECK(cpus_running == before + 1);
}
