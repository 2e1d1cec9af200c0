/* References: Intel SDM volume 2 (CPUID) and volume 1 chapter 13 (XSAVE); AMD APM volume 3 appendix
 * E; Linux, Documentation/virt/kvm/x86/cpuid.rst. */
#include "vmm/cpuid.h"

#include <string.h>

#include "base/cleanup.h"

#define BIT(n) (1U << (n))

enum {
	XSAVE_LEGACY_BYTES = 576, /* FXSAVE's area and the XSAVE header */
	XSAVE_COMPONENTS = 63,
	MPX_COMPONENTS = BIT(3) | BIT(4),
	AMX_COMPONENTS = BIT(17) | BIT(18),
};

/* Features that no guest gets, whatever the host has:
 * - nested virtualisation: its state is not saved, and a host with nested=0 refuses it;
 * - performance counters, debug store, branch records, processor trace: their state is not saved;
 * - AMX: without permission for the process, KVM shows half of it, and that half crashes Linux;
 * - TSX, MPX, SGX: microcode removes them or switches them off on some CPUs of the same model;
 * - shadow stacks (CET), WAITPKG, key locker: only some versions of KVM have them, and they have
 *   state beyond the saved MSRs;
 * - memory encryption: it belongs to the host;
 * - invariant TSC: kvm-clock stays right on another host, the TSC does not. */
static const struct {
	uint32_t function, index;
	uint32_t clear[4];
} masked[] = {
	{0x1, 0, {0, 0, BIT(2) | BIT(4) | BIT(5) | BIT(15), BIT(21)}}, /* DS, VMX, PDCM */
	{0x7, 0,
		{0, BIT(2) | BIT(4) | BIT(11) | BIT(14) | BIT(25), /* SGX HLE RTM MPX PT */
			BIT(5) | BIT(7) | BIT(23) | BIT(30),	   /* WAITPKG SHSTK KL SGX_LC */
			BIT(11) | BIT(13) | BIT(16) |		   /* TSX's, ... */
				BIT(19) | BIT(20) | BIT(22) | BIT(24) | BIT(25) | /* LBR IBT AMX */
				BIT(30)}}, /* CORE_CAPABILITIES */
	{0x7, 1, {BIT(21) /* AMX_FP16 */, 0, 0, BIT(8) | BIT(18) /* AMX_COMPLEX CET_SSS */}},
	{0xd, 1, {BIT(4) /* XFD */, 0, ~0U, ~0U}},			 /* no supervisor state */
	{0xa, 0, {~0U, ~0U, ~0U, ~0U}}, {0x12, 0, {~0U, ~0U, ~0U, ~0U}}, /* SGX */
	{0x14, 0, {~0U, ~0U, ~0U, ~0U}},				 /* processor trace */
	{0x19, 0, {~0U, ~0U, ~0U, ~0U}},				 /* key locker */
	{0x1c, 0, {~0U, ~0U, ~0U, ~0U}},				 /* branch records */
	{0x1d, 0, {~0U, ~0U, ~0U, ~0U}}, {0x1d, 1, {~0U, ~0U, ~0U, ~0U}},
	{0x1e, 0, {~0U, ~0U, ~0U, ~0U}}, /* AMX */
	{0x1e, 1, {~0U, ~0U, ~0U, ~0U}},
	{0x23, 0, {~0U, ~0U, ~0U, ~0U}}, /* performance counters again */
	/* KVM: no asynchronous page faults, as their state does not survive a snapshot */
	{0x40000001, 0, {BIT(4) | BIT(10) | BIT(14), 0, 0, 0}},
	{0x80000001, 0, {0, 0, BIT(2) /* SVM */ | BIT(23) | BIT(24) | BIT(28), 0}},
	{0x80000007, 0, {0, 0, 0, BIT(8)}}, {0x8000000a, 0, {~0U, ~0U, ~0U, ~0U}},
	{0x8000001f, 0, {~0U, ~0U, ~0U, ~0U}}, {0x80000022, 0, {~0U, ~0U, ~0U, ~0U}},
	{0x80000026, 0, {~0U, ~0U, ~0U, ~0U}}, /* the host's topology */
};

struct kvm_cpuid_entry2 *cpuid_find(struct kvm_cpuid_table *t, uint32_t function, uint32_t index)
{
	for (uint32_t i = 0; i < t->head.nent; i++) {
		struct kvm_cpuid_entry2 *c = &t->entries[i];

		if (c->function == function &&
			(!(c->flags & KVM_CPUID_FLAG_SIGNIFCANT_INDEX) || c->index == index))
			return c;
	}
	return NULL;
}

uint32_t *cpuid_word(struct kvm_cpuid_entry2 *c, enum cpuid_register reg)
{
	return reg == EAX ? &c->eax : reg == EBX ? &c->ebx : reg == ECX ? &c->ecx : &c->edx;
}

bool cpuid_is_intel(const struct kvm_cpuid_table *t)
{
	const struct kvm_cpuid_entry2 *c = cpuid_find((struct kvm_cpuid_table *)t, 0, 0);

	return c && c->ebx == 0x756e6547 && c->edx == 0x49656e69 && c->ecx == 0x6c65746e;
}

/* Returns the entry of a leaf with subleaves and creates a zeroed one if there is none. NULL when
 * the table is full. */
static struct kvm_cpuid_entry2 *make(struct kvm_cpuid_table *t, uint32_t function, uint32_t index)
{
	struct kvm_cpuid_entry2 *c = cpuid_find(t, function, index);

	if (!c && t->head.nent < KVM_CPUID_ENTRIES_MAX) {
		c = &t->entries[t->head.nent++];
		*c = (struct kvm_cpuid_entry2){.function = function, .index = index};
	}
	if (c)
		c->flags |= KVM_CPUID_FLAG_SIGNIFCANT_INDEX;
	return c;
}

/* --- features --- */

static void mask_features(struct kvm_cpuid_table *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(masked); i++) {
		struct kvm_cpuid_entry2 *c = cpuid_find(t, masked[i].function, masked[i].index);

		for (unsigned k = EAX; c && k <= EDX; k++)
			*cpuid_word(c, k) &= ~masked[i].clear[k];
	}
}

/* AMD's CPUs do not have this MSR. Older versions of KVM offer it all the same, newer ones do
 * not. */
static void mask_arch_capabilities(struct kvm_cpuid_table *t)
{
	struct kvm_cpuid_entry2 *c = cpuid_find(t, 0x7, 0);

	if (c && !cpuid_is_intel(t))
		c->edx &= ~BIT(29);
}

/* --- XSAVE --- */

static uint64_t xcr0(struct kvm_cpuid_table *t)
{
	const struct kvm_cpuid_entry2 *c = cpuid_find(t, 0xd, 0);

	return c ? (uint64_t)c->edx << 32 | c->eax : 0;
}

static void drop_other_components(struct kvm_cpuid_table *t)
{
	uint64_t kept = xcr0(t);
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->head.nent; i++) {
		const struct kvm_cpuid_entry2 *c = &t->entries[i];
		bool drop = c->function == 0xd && c->index >= 2 &&
			    (c->index > XSAVE_COMPONENTS || !(kept >> c->index & 1));

		if (!drop)
			t->entries[n++] = *c;
	}
	t->head.nent = n;
}

void cpuid_fit_xsave(struct kvm_cpuid_table *t)
{
	uint32_t standard = XSAVE_LEGACY_BYTES, compacted = XSAVE_LEGACY_BYTES;
	struct kvm_cpuid_entry2 *c = cpuid_find(t, 0xd, 0);

	if (!c || c->eax == 0)
		return;
	drop_other_components(t);
	for (uint32_t i = 2; i <= XSAVE_COMPONENTS; i++) {
		const struct kvm_cpuid_entry2 *part = cpuid_find(t, 0xd, i);

		if (!part)
			continue;
		if (part->ebx + part->eax > standard)
			standard = part->ebx + part->eax;
		if (part->ecx & BIT(1)) /* aligned */
			compacted = (compacted + 63) & ~63U;
		compacted += part->eax;
	}
	c = cpuid_find(t, 0xd, 0);
	c->ebx = c->ecx = standard; /* KVM fits EBX to what the guest enables */
	c = cpuid_find(t, 0xd, 1);
	if (c && c->ebx)
		c->ebx = compacted;
}

static void mask_components(struct kvm_cpuid_table *t)
{
	struct kvm_cpuid_entry2 *c = cpuid_find(t, 0xd, 0);

	if (c)
		c->eax &= ~(uint32_t)(MPX_COMPONENTS | AMX_COMPONENTS);
	cpuid_fit_xsave(t);
}

/* --- topology: one thread a core, all cores in one package --- */

static unsigned core_bits(unsigned cpus)
{
	unsigned bits = 0;

	while ((1U << bits) < cpus)
		bits++;
	return bits;
}

static void shape_leaf(struct kvm_cpuid_entry2 *c, unsigned cpus)
{
	switch (c->function) {
	case 0x1:
		c->ecx |= BIT(31) /* hypervisor */ | BIT(24) /* TSC deadline */ |
			  BIT(21) /* x2APIC */;
		c->ebx = (c->ebx & 0xff00ffff) | cpus << 16;
		c->edx = cpus > 1 ? c->edx | BIT(28) : c->edx & ~BIT(28); /* HTT */
		break;
	case 0x4: /* Intel caches: L1 and L2 of one core, L3 shared by all */
		if (c->eax & 0x1f)
			c->eax = (c->eax & 0x00003fff) | (cpus - 1) << 26 |
				 ((c->eax >> 5 & 7) >= 3 ? cpus - 1 : 0) << 14;
		break;
	case 0x6:
		c->eax |= BIT(2); /* the APIC timer always runs */
		break;
	case 0x80000008:
		c->ecx = (c->ecx & 0xffff0f00) | (cpus - 1) | core_bits(cpus) << 12;
		break;
	case 0x8000001d: /* AMD caches */
		c->eax = (c->eax & 0x00003fff) | ((c->eax >> 5 & 7) >= 3 ? cpus - 1 : 0) << 14;
		break;
	default:
		break;
	}
}

/* Adds both levels. KVM reports only the first, which would make each CPU a package of its own. */
static void add_levels(struct kvm_cpuid_table *t, uint32_t function, unsigned cpus)
{
	const struct kvm_cpuid_entry2 *top = cpuid_find(t, 0, 0);

	if (!top || top->eax < function)
		return;
	for (uint32_t level = 0; level < 2; level++) {
		struct kvm_cpuid_entry2 *c = make(t, function, level);

		if (!c)
			return;
		c->eax = level == 0 ? 0 : core_bits(cpus);
		c->ebx = level == 0 ? 1 : cpus;
		c->ecx = level | (level + 1) << 8; /* 1: threads, 2: cores */
	}
}

void cpuid_shape(struct kvm_cpuid_table *t, unsigned cpus)
{
	mask_features(t);
	mask_arch_capabilities(t);
	mask_components(t);
	for (uint32_t i = 0; i < t->head.nent; i++)
		shape_leaf(&t->entries[i], cpus);
	add_levels(t, 0xb, cpus);
	add_levels(t, 0x1f, cpus);
}

void cpuid_set_apic_id(struct kvm_cpuid_table *t, unsigned id)
{
	for (uint32_t i = 0; i < t->head.nent; i++) {
		struct kvm_cpuid_entry2 *c = &t->entries[i];

		if (c->function == 0x1)
			c->ebx = (c->ebx & 0x00ffffff) | id << 24;
		else if (c->function == 0xb || c->function == 0x1f)
			c->edx = id;
		else if (c->function == 0x8000001e) {
			c->eax = id;
			c->ebx = (c->ebx & 0xffff0000) | id;
			c->ecx = 0;
		}
	}
}
