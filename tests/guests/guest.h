/* The runtime of bare test guests: output, power-off, ports, MMIO, interrupts, further CPUs.
 *
 * A guest is a set of named tests; the kernel command line says which one to run (first word) and
 * with what argument (second word, a number). A test that returns has passed. */
#ifndef GUESTS_GUEST_H
#define GUESTS_GUEST_H

#include <asm/bootparam.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

struct guest_test {
	const char *name; /* "*": whatever the command line says */
	void (*run)(void);
};
extern const struct guest_test guest_tests[]; /* each guest's own; ends with a NULL name */

extern struct boot_params *guest_boot_params;
extern uint64_t guest_argument; /* second word of the command line */
extern char guest_end[];	/* first byte behind the program */

void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *s);

/* %s %u %x (64-bit values), nothing else. */
void print(const char *format, ...);
_Noreturn void power_off(uint8_t value);
_Noreturn void skip(const char *why);
_Noreturn void guest_fail(const char *file, unsigned line, const char *what);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			guest_fail(__FILE__, __LINE__, #condition);                                \
	} while (0)

#define EQUAL(a, b)                                                                                \
	do {                                                                                       \
		uint64_t a_ = (a), b_ = (b);                                                       \
		if (a_ != b_) {                                                                    \
			print("%s is 0x%x, expected 0x%x\n", #a, a_, b_);                          \
			guest_fail(__FILE__, __LINE__, #a " == " #b);                              \
		}                                                                                  \
	} while (0)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static inline void outb(uint16_t port, uint8_t v)
{
	__asm__ volatile("outb %0, %1" : : "a"(v), "d"(port));
}

static inline uint8_t inb(uint16_t port)
{
	uint8_t v;

	__asm__ volatile("inb %1, %0" : "=a"(v) : "d"(port));
	return v;
}

static inline void write32(uint64_t at, uint32_t v)
{
	*(volatile uint32_t *)at = v;
}

static inline uint32_t read32(uint64_t at)
{
	return *(volatile uint32_t *)at;
}

static inline void cpu_relax(void)
{
	__builtin_ia32_pause();
}

static inline uint64_t cycles(void)
{
	return __builtin_ia32_rdtsc();
}

extern volatile uint32_t guest_halts; /* the next exception brings its CPU to rest */

/* Only kernel mode may halt, and it is entered by exceptions. */
static inline _Noreturn void halt(void)
{
	guest_halts = 1;
	for (;;)
		__asm__ volatile("hlt");
}

/* xorshift, the same numbers in every run. */
uint64_t random64(void);

/* --- the mailbox --- */
#define MAILBOX ((struct mailbox *)GUEST_MAILBOX)
void mailbox_wait(uint32_t stage); /* announces a stage and waits for the harness's answer */

/* --- interrupts --- */
extern volatile uint32_t interrupt_count[256]; /* by vector, counted by the handlers */
void apic_enable(void);			       /* this CPU's local APIC */
uint32_t apic_read(uint32_t reg);
void apic_write(uint32_t reg, uint32_t v);
uint64_t ioapic_read(unsigned pin);
void ioapic_write(unsigned pin, uint64_t entry);
bool interrupt_arrives(uint8_t vector, uint32_t count); /* waits up to about a second */
/* Halts until the vector's count differs from the one that was seen. The first CPU only. */
void interrupt_wait(uint8_t vector, uint32_t seen);

/* --- further CPUs --- */
extern volatile uint32_t
	cpus_running; /* those that reached their function, the first not counted */
void cpu_start(unsigned cpu, void (*run)(void)); /* returns when it runs */
unsigned cpu_index(void);			 /* of the caller */

#endif
