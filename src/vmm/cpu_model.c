#include "vmm/cpu_model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "vmm/cpuid.h"

/* Not a leaf: the MSR's halves, in EAX and EDX. */
#define ARCH_CAPABILITIES 0x10aU

enum rule {
	SAME,	  /* the vendor */
	BITS,	  /* features: the host must have all of the guest's */
	AT_MOST,  /* one number */
	IF_SHOWN, /* sizes and offsets: must be equal if the guest has the component at all */
};

enum { PKRU_COMPONENT = 9 };

/* A subleaf of 0xD: size and offset of one component of XSAVE's area. */
#define COMPONENT(i)                                                                               \
	{0xd, i, EAX, IF_SHOWN, ~0U},                                                              \
	{                                                                                          \
		0xd, i, EBX, IF_SHOWN, ~0U                                                         \
	}

static const struct fact {
	uint32_t function, index;
	enum cpuid_register reg;
	enum rule rule;
	uint32_t mask; /* the bits that matter */
} rows[] = {
	{0x0, 0, EBX, SAME, ~0U},
	{0x0, 0, ECX, SAME, ~0U},
	{0x0, 0, EDX, SAME, ~0U},
	/* without bits that depend on a CPU's state, and those that every guest gets (cpuid.c) */
	{0x1, 0, ECX, BITS, ~(1U << 21 | 1U << 24 | 1U << 27 | 1U << 31)},
	{0x1, 0, EDX, BITS, ~(1U << 28)},
	{0x7, 0, EBX, BITS, ~0U},
	{0x7, 0, ECX, BITS, ~(1U << 4)},
	{0x7, 0, EDX, BITS, ~0U},
	{0x7, 1, EAX, BITS, ~0U},
	{0x7, 1, EBX, BITS, ~0U},
	{0x7, 1, ECX, BITS, ~0U},
	{0x7, 1, EDX, BITS, ~0U},
	{0x7, 2, EDX, BITS, ~0U},
	{0xd, 0, EAX, BITS, ~0U},
	{0xd, 0, EDX, BITS, ~0U},
	{0xd, 1, EAX, BITS, ~0U},
	{0xd, 1, ECX, BITS, ~0U},
	{0xd, 1, EDX, BITS, ~0U},
	COMPONENT(2), /* AVX */
	COMPONENT(3),
	COMPONENT(4), /* MPX */
	COMPONENT(5),
	COMPONENT(6),
	COMPONENT(7), /* AVX-512 */
	COMPONENT(PKRU_COMPONENT),
	COMPONENT(17),
	COMPONENT(18),		       /* AMX */
	COMPONENT(19),		       /* APX */
	{0x24, 0, EBX, AT_MOST, 0xff}, /* AVX10: version, lengths of vectors */
	{0x24, 0, EBX, BITS, 0x70000},
	{0x24, 1, ECX, BITS, ~0U},
	{0x40000001, 0, EAX, BITS, ~(1U << 4 | 1U << 10 | 1U << 14)}, /* KVM's own */
	{0x80000001, 0, ECX, BITS, ~2U},			      /* bit 1: several cores */
	{0x80000001, 0, EDX, BITS, ~0U},
	{0x80000008, 0, EAX, AT_MOST, 0xff}, /* bits of a physical address */
	{0x80000008, 0, EAX, AT_MOST, 0xff00},
	{0x80000008, 0, EBX, BITS, ~0U},
	{0x8000000a, 0, EDX, BITS, ~0U},
	{0x80000021, 0, EAX, BITS, ~0U},
	{0x80000021, 0, ECX, BITS, ~0U},
	/* without two bits that name a flaw */
	{ARCH_CAPABILITIES, 0, EAX, BITS, ~(1U << 2 | 1U << 19)},
	{ARCH_CAPABILITIES, 0, EDX, BITS, ~0U},
};
_Static_assert(ARRAY_SIZE(rows) == CPU_FACTS_WORDS, "one word a row");

void cpu_facts_of(
	const struct kvm_cpuid_table *t, uint64_t arch_capabilities, struct cpu_facts *ret)
{
	struct kvm_cpuid_entry2 msr = {
		.eax = (uint32_t)arch_capabilities, .edx = (uint32_t)(arch_capabilities >> 32)};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct kvm_cpuid_entry2 *c = rows[i].function == ARCH_CAPABILITIES
						     ? &msr
						     : cpuid_find((struct kvm_cpuid_table *)t,
							       rows[i].function, rows[i].index);

		ret->word[i] = c ? *cpuid_word(c, rows[i].reg) & rows[i].mask : 0;
	}
}

int cpu_facts_here(int kvm_fd, struct cpu_facts *ret, struct error *e)
{
	_cleanup_free_ struct kvm_cpuid_table *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	r = kvm_supported_cpuid(kvm_fd, t, e);
	if (r == 0)
		cpu_facts_of(t, kvm_arch_capabilities(kvm_fd), ret);
	return r;
}

/* FNV-1a, 64 bits. No adversary chooses a host's CPU. */
uint64_t cpu_facts_hash(const struct cpu_facts *f)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < ARRAY_SIZE(f->word); i++)
		for (unsigned k = 0; k < 32; k += 8)
			h = (h ^ (f->word[i] >> k & 0xff)) * UINT64_C(0x100000001b3);
	return h ? h : 1;
}

/* --- comparing --- */

/* Returns the guest's bits that the host lacks. For numbers, it returns the guest's number. */
static uint32_t missing(const struct fact *row, uint32_t guest, uint32_t host)
{
	switch (row->rule) {
	case SAME:
		return guest == host ? 0 : guest;
	case BITS:
		return guest & ~host;
	case AT_MOST:
		return guest <= host ? 0 : guest;
	default:
		return guest == 0 || guest == host ? 0 : guest;
	}
}

static const char *register_name(enum cpuid_register r)
{
	static const char *const names[] = {"eax", "ebx", "ecx", "edx"};

	return names[r];
}

static int refuse(const struct fact *row, uint32_t bits, struct error *e)
{
	char what[64];

	if (row->rule == SAME)
		return error_set(e, ERROR_INCOMPATIBLE, ENOTSUP,
			"the snapshot was made on a CPU of another vendor; rebuild the template "
			"here");
	if (row->function == ARCH_CAPABILITIES)
		(void)snprintf(what, sizeof(what), "MSR 0x%x", row->function); /* fits */
	else
		(void)snprintf(what, sizeof(what), "leaf 0x%x.%x %s", row->function, row->index,
			register_name(row->reg)); /* fits */
	return error_set(e, ERROR_INCOMPATIBLE, ENOTSUP,
		"the snapshot needs CPU features that this host lacks (%s, bits 0x%x); rebuild the "
		"template here, or with --cpu-baseline for all hosts",
		what, bits);
}

int cpu_facts_check(const struct cpu_facts *guest, const struct cpu_facts *host, struct error *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t bits = missing(&rows[i], guest->word[i], host->word[i]);

		if (bits)
			return refuse(&rows[i], bits, e);
	}
	return 0;
}

/* --- what a fleet has in common --- */

static uint32_t common(const struct fact *row, uint32_t a, uint32_t b)
{
	switch (row->rule) {
	case BITS:
		return a & b;
	case AT_MOST:
		return a < b ? a : b;
	default:
		return a == b ? a : 0;
	}
}

int cpu_facts_common(struct cpu_facts *f, const struct cpu_facts *other, struct error *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].rule == SAME && f->word[i] != other->word[i])
			return error_set(e, ERROR_INCOMPATIBLE, ENOTSUP,
				"the CPUs are of different vendors, no template runs on both: make "
				"one for each");
		f->word[i] = common(&rows[i], f->word[i], other->word[i]);
	}
	return 0;
}

/* Clears XCR0's bit of a component that lies elsewhere on another host, and the feature that needs
 * it. */
static void drop_component(struct kvm_cpuid_table *t, uint32_t component)
{
	struct kvm_cpuid_entry2 *c = cpuid_find(t, 0xd, 0);

	if (c)
		c->eax &= ~(1U << component);
	c = cpuid_find(t, 0x7, 0);
	if (c && component == PKRU_COMPONENT)
		c->ecx &= ~(1U << 3);
}

/* The rows of XCR0 and leaf 7 come before those of the components, so components see them
 * limited. */
void cpu_facts_limit(const struct cpu_facts *f, struct kvm_cpuid_table *t, uint64_t *capabilities)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct fact *row = &rows[i];
		struct kvm_cpuid_entry2 *c = cpuid_find(t, row->function, row->index);
		uint32_t *w = c ? cpuid_word(c, row->reg) : NULL;

		if (w && row->rule == IF_SHOWN && missing(row, *w, f->word[i]))
			drop_component(t, row->index);
		else if (w && row->rule != SAME && row->rule != IF_SHOWN)
			*w = (*w & ~row->mask) | common(row, *w & row->mask, f->word[i]);
		else if (row->function == ARCH_CAPABILITIES)
			*capabilities &= ~(
				(uint64_t)(row->mask & ~f->word[i]) << (row->reg == EDX ? 32 : 0));
	}
	cpuid_fit_xsave(t);
}

/* --- as text --- */

static const char heading[] = "# what KVM offers guests on one host: leaf, register, mask, value\n";

static int name_of(const struct fact *row, char *out, size_t n)
{
	return snprintf(out, n, "%x.%x.%s&%x ", row->function, row->index, register_name(row->reg),
		row->mask); /* fits: 32 bytes at most */
}

int cpu_facts_print(const struct cpu_facts *f, struct buf *out)
{
	int r = buf_printf(out, "%s", heading);
	char name[48];

	for (size_t i = 0; i < ARRAY_SIZE(rows) && r == 0; i++) {
		(void)name_of(&rows[i], name, sizeof(name)); /* fits */
		r = buf_printf(out, "%s%" PRIx32 "\n", name, f->word[i]);
	}
	return r;
}

static int parse_value(const char *s, size_t n, uint32_t *ret)
{
	uint32_t v = 0;

	if (n == 0 || n > 8)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		const char digits[] = "0123456789abcdef", *d = strchr(digits, s[i]);

		if (!d || !*d)
			return -EINVAL;
		v = v << 4 | (uint32_t)(d - digits);
	}
	*ret = v;
	return 0;
}

int cpu_facts_parse(const char *text, struct cpu_facts *ret)
{
	char name[48];

	if (strncmp(text, heading, strlen(heading)) != 0)
		return -EINVAL;
	text += strlen(heading);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t n = (size_t)name_of(&rows[i], name, sizeof(name)),
		       line = strcspn(text, "\n");

		if (text[line] != '\n' || strncmp(text, name, n) != 0 ||
			parse_value(text + n, line - n, &ret->word[i]) < 0 ||
			ret->word[i] & ~rows[i].mask)
			return -EINVAL;
		text += line + 1;
	}
	return *text ? -EINVAL : 0;
}
