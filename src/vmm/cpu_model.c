#include "vmm/cpu_model.h"

#include <cpuid.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"

#define CPUID_EXTENDED 0x80000000U

/* The words that name the CPU model or list features. */
static const struct feature_leaf {
	uint32_t function, index;
	uint32_t mask[4]; /* EAX, EBX, ECX, EDX bits that matter */
	bool features;	  /* the masked words are feature bits: a subset is enough */
} leaves[] = {
	{0x0, 0, {0, ~0u, ~0u, ~0u}, false},		   /* vendor */
	{0x1, 0, {0x0fff3ff0, 0, 0x77ffffff, ~0u}, false}, /* family, model; features */
	{0x7, 0, {0, ~0u, ~0u & ~(1u << 4), ~0u}, true},
	{0xd, 0, {~0u, 0, 0, 0}, true},
	{0x80000001, 0, {0, 0, ~2u, ~0u}, true}, /* but not bit 1: there are several cores */
	{0x80000008, 0, {0, ~0u, 0, 0}, true},
};

void cpuid_fingerprint(uint32_t out[CPUID_FINGERPRINT_WORDS])
{
	_Static_assert(
		ARRAY_SIZE(leaves) * 4 == CPUID_FINGERPRINT_WORDS, "one row of words a leaf");
	const uint32_t last = __get_cpuid_max(0, NULL),
		       last_extended = __get_cpuid_max(CPUID_EXTENDED, NULL);

	memset(out, 0, CPUID_FINGERPRINT_WORDS * sizeof(*out));
	for (size_t i = 0; i < ARRAY_SIZE(leaves); i++) {
		uint32_t f = leaves[i].function, r[4] = {0};

		if (f <= (f & CPUID_EXTENDED ? last_extended : last)) /* a missing one is zero */
			__cpuid_count(f, leaves[i].index, r[0], r[1], r[2], r[3]);
		for (unsigned k = 0; k < 4; k++)
			out[i * 4 + k] = r[k] & leaves[i].mask[k];
	}
}

static const struct kvm_cpuid_entry2 *find(
	const struct kvm_cpuid_table *t, uint32_t function, uint32_t index)
{
	for (uint32_t i = 0; i < t->head.nent; i++)
		if (t->entries[i].function == function &&
			(!(t->entries[i].flags & KVM_CPUID_FLAG_SIGNIFCANT_INDEX) ||
				t->entries[i].index == index))
			return &t->entries[i];
	return NULL;
}

static void words(const struct kvm_cpuid_entry2 *c, uint32_t out[4])
{
	memset(out, 0, 4 * sizeof(*out));
	if (c)
		memcpy(out, (uint32_t[]){c->eax, c->ebx, c->ecx, c->edx}, 4 * sizeof(*out));
}

int cpuid_check_subset(
	const struct kvm_cpuid_table *guest, const struct kvm_cpuid_table *host, struct error *e)
{
	uint32_t g[4], h[4];

	words(find(guest, 0, 0), g);
	words(find(host, 0, 0), h);
	if (memcmp(&g[1], &h[1], 3 * sizeof(g[0])) != 0)
		return error_set(e, ERROR_INCOMPATIBLE, ENOTSUP,
			"the snapshot was made on a CPU of another vendor; rebuild the template "
			"here");
	for (size_t i = 0; i < ARRAY_SIZE(leaves); i++) {
		words(find(guest, leaves[i].function, leaves[i].index), g);
		words(find(host, leaves[i].function, leaves[i].index), h);
		if (leaves[i].function ==
			0x1) { /* KVM reports these two only while they are enabled */
			g[2] &= ~(1u << 27 | 1u << 24 | 1u << 31);
			g[3] &= ~(1u << 28);
			g[0] = 0;
		} else if (!leaves[i].features) {
			continue;
		}
		for (unsigned k = 0; k < 4; k++) {
			uint32_t missing = g[k] & leaves[i].mask[k] & ~h[k];

			if (missing)
				return error_set(e, ERROR_INCOMPATIBLE, ENOTSUP,
					"the snapshot needs CPU features that this host lacks "
					"(leaf 0x%x, "
					"register %u, bits 0x%x); rebuild the template here",
					leaves[i].function, k, missing);
		}
	}
	return 0;
}
