#include "real_cpus.h"

#include <string.h>

enum { ROWS_MAX = 40 };

struct row {
	uint32_t function, index, word[4];
};

#define INTEL(last)                                                                                \
	{                                                                                          \
		0x0, 0,                                                                            \
		{                                                                                  \
			last, 0x756e6547, 0x6c65746e, 0x49656e69                                   \
		}                                                                                  \
	}
#define AMD                                                                                        \
	{                                                                                          \
		0x0, 0,                                                                            \
		{                                                                                  \
			0x10, 0x68747541, 0x444d4163, 0x69746e65                                   \
		}                                                                                  \
	}
#define FEATURES(family)                                                                           \
	{                                                                                          \
		0x1, 0,                                                                            \
		{                                                                                  \
			family, 0x00010800, 0xf7fa3223, 0x0f8bfbff                                 \
		}                                                                                  \
	}
#define NO_MONITORING                                                                              \
	{                                                                                          \
		0xa, 0,                                                                            \
		{                                                                                  \
			0x08300802, 0, 0, 0x603                                                    \
		}                                                                                  \
	}
#define TOPOLOGY(leaf)                                                                             \
	{                                                                                          \
		leaf, 0,                                                                           \
		{                                                                                  \
			0, 1, 0x100, 5                                                             \
		}                                                                                  \
	}
#define XSAVE(xcr0, size)                                                                          \
	{                                                                                          \
		0xd, 0,                                                                            \
		{                                                                                  \
			xcr0, 0x240, size, 0                                                       \
		}                                                                                  \
	}
#define AVX                                                                                        \
	{                                                                                          \
		0xd, 2,                                                                            \
		{                                                                                  \
			0x100, 0x240, 0, 0                                                         \
		}                                                                                  \
	}
#define MPX                                                                                        \
	{0xd, 3, {0x40, 0x3c0, 0, 0}},                                                             \
	{                                                                                          \
		0xd, 4,                                                                            \
		{                                                                                  \
			0x40, 0x400, 0, 0                                                          \
		}                                                                                  \
	}
#define AVX512(a, b, c)                                                                            \
	{0xd, 5, {0x40, a, 0, 0}}, {0xd, 6, {0x200, b, 0, 0}},                                     \
	{                                                                                          \
		0xd, 7,                                                                            \
		{                                                                                  \
			0x400, c, 0, 0                                                             \
		}                                                                                  \
	}
#define PKRU(offset)                                                                               \
	{                                                                                          \
		0xd, 9,                                                                            \
		{                                                                                  \
			8, offset, 0, 0                                                            \
		}                                                                                  \
	}
#define XTILE_CFG                                                                                  \
	{                                                                                          \
		0xd, 17,                                                                           \
		{                                                                                  \
			0x40, 0xac0, 2, 0                                                          \
		}                                                                                  \
	}
#define XTILE_DATA                                                                                 \
	{                                                                                          \
		0xd, 18,                                                                           \
		{                                                                                  \
			0x2000, 0xb00, 6, 0                                                        \
		}                                                                                  \
	}
#define AMX                                                                                        \
	{0x1d, 0, {1, 0, 0, 0}}, {0x1d, 1, {0x04002000, 0x00080040, 0x10, 0}},                     \
	{                                                                                          \
		0x1e, 0,                                                                           \
		{                                                                                  \
			0, 0x4010, 0, 0                                                            \
		}                                                                                  \
	}
#define KVM_LEAVES                                                                                 \
	{0x40000000, 0, {0x40000001, 0x4b4d564b, 0x564b4d56, 0x4d}},                               \
	{                                                                                          \
		0x40000001, 0,                                                                     \
		{                                                                                  \
			0x01007efb, 0, 0, 0                                                        \
		}                                                                                  \
	}
#define INTEL_EXTENDED(bits)                                                                       \
	{0x80000000, 0, {0x80000008, 0, 0, 0}}, {0x80000001, 0, {0, 0, 0x121, 0x2c100800}},        \
	{                                                                                          \
		0x80000008, 0,                                                                     \
		{                                                                                  \
			bits, 0, 0, 0                                                              \
		}                                                                                  \
	}
#define AMD_EXTENDED(family, bits)                                                                 \
	{0x80000000, 0, {0x80000021, 0x68747541, 0x444d4163, 0x69746e65}},                         \
		{0x80000001, 0, {family, 0x40000000, 0x00c003f7, 0x2fd3fbff}},                     \
		{0x80000007, 0, {0, 0, 0, 0x100}}, {0x80000008, 0, {bits, 0x1302d205, 0x7000, 0}}, \
	{                                                                                          \
		0x8000001f, 0,                                                                     \
		{                                                                                  \
			0x01014fcf, 0x5163, 0x1fd, 1                                               \
		}                                                                                  \
	}
#define SVM                                                                                        \
	{                                                                                          \
		0x8000000a, 0,                                                                     \
		{                                                                                  \
			1, 8, 0, 0x1001943b                                                        \
		}                                                                                  \
	}

static const struct {
	const char *name;
	uint64_t capabilities;
	struct row rows[ROWS_MAX];
} cpus[REAL_CPUS] = {
	[CASCADE_LAKE] = {"Cascade Lake", 0xab,
		{INTEL(0x16), FEATURES(0x50657), {0x4, 0, {0x7c004121, 0x01c0003f, 0x3f, 0}},
			{0x4, 3, {0x7c07c163, 0x0280003f, 0xcfff, 5}}, NO_MONITORING, TOPOLOGY(0xb),
			{0x7, 0, {0, 0xd19f67eb, 0x0000080c, 0xac000400}}, XSAVE(0x2ff, 0xa88),
			{0xd, 1, {0xf, 0x240, 0, 0}}, AVX, MPX, AVX512(0x440, 0x480, 0x680),
			PKRU(0xa80), KVM_LEAVES, INTEL_EXTENDED(0x302e)}},
	[CASCADE_LAKE_TSX] = {"Cascade Lake with TSX", 0xab,
		{INTEL(0x16), FEATURES(0x50657), NO_MONITORING, TOPOLOGY(0xb),
			{0x7, 0, {0, 0xd19f6ffb, 0x0000080c, 0xac000c00}}, XSAVE(0x2ff, 0xa88),
			{0xd, 1, {0xf, 0x240, 0, 0}}, AVX, MPX, AVX512(0x440, 0x480, 0x680),
			PKRU(0xa80), KVM_LEAVES, INTEL_EXTENDED(0x302e)}},
	[ICE_LAKE] = {"Ice Lake", 0x0c00c1eb,
		{INTEL(0x1b), FEATURES(0x606a6), NO_MONITORING, TOPOLOGY(0xb),
			{0x7, 0, {2, 0xf1bf27eb, 0x40415f6e, 0xac000410}}, {0x7, 1, {0, 0, 0, 0}},
			{0x7, 2, {0, 0, 0, 1}}, XSAVE(0x2e7, 0xa88), {0xd, 1, {0xf, 0x240, 0, 0}},
			AVX, AVX512(0x440, 0x480, 0x680), PKRU(0xa80), KVM_LEAVES,
			INTEL_EXTENDED(0x392e)}},
	[SAPPHIRE_RAPIDS] = {"Sapphire Rapids", 0x0c08e1eb,
		{INTEL(0x1f), FEATURES(0x806f8), NO_MONITORING, TOPOLOGY(0xb), TOPOLOGY(0x1f),
			{0x7, 0, {2, 0xf1bf27eb, 0x1b415f6e, 0xafc14410}},
			{0x7, 1, {0x30, 0, 0, 0}}, {0x7, 2, {0, 0, 0, 0x17}},
			XSAVE(0x602e7, 0x2b00), {0xd, 1, {0x1f, 0x240, 0, 0}}, AVX,
			AVX512(0x440, 0x480, 0x680), PKRU(0xa80), XTILE_CFG, XTILE_DATA, AMX,
			KVM_LEAVES, INTEL_EXTENDED(0x392e)}},
	[SAPPHIRE_RAPIDS_HALF] = {"Sapphire Rapids on Linux 6.1", 0x0c08e1eb,
		{INTEL(0x1f), FEATURES(0x806f8), NO_MONITORING, TOPOLOGY(0xb), TOPOLOGY(0x1f),
			{0x7, 0, {2, 0xf1bf27eb, 0x1b415f6e, 0xafc14410}},
			{0x7, 1, {0x30, 0, 0, 0}}, {0x7, 2, {0, 0, 0, 0x17}}, XSAVE(0x202e7, 0xb00),
			{0xd, 1, {0x1f, 0x240, 0, 0}}, AVX, AVX512(0x440, 0x480, 0x680),
			PKRU(0xa80), XTILE_CFG, AMX, KVM_LEAVES, INTEL_EXTENDED(0x392e)}},
	[GRANITE_RAPIDS] = {"Granite Rapids", 0x0c08e1eb,
		{INTEL(0x24), FEATURES(0xa06d1), NO_MONITORING, TOPOLOGY(0xb), TOPOLOGY(0x1f),
			{0x7, 0, {2, 0xf1bf27eb, 0x1b415fee, 0xbfd14410}},
			{0x7, 1, {0x00201c30, 0, 0, 0x00084000}}, {0x7, 2, {0, 0, 0, 0x3f}},
			XSAVE(0x602e7, 0x2b00), {0xd, 1, {0x1f, 0x240, 0x1800, 0}}, AVX,
			AVX512(0x440, 0x480, 0x680), PKRU(0xa80), {0xd, 11, {0x10, 0, 1, 0}},
			{0xd, 12, {0x18, 0, 1, 0}}, XTILE_CFG, XTILE_DATA, AMX,
			{0x24, 0, {0, 0x70001, 0, 0}}, KVM_LEAVES, INTEL_EXTENDED(0x3934)}},
	[MILAN] = {"Milan", 0x0c000069,
		{AMD, {0x1, 0, {0xa00f11, 0x00010800, 0xf6f83203, 0x178bfbff}}, TOPOLOGY(0xb),
			{0x7, 0, {0, 0x219c07a9, 0x0040060c, 0xac000010}}, XSAVE(0x207, 0x988),
			{0xd, 1, {0xf, 0x240, 0x1800, 0}}, AVX, PKRU(0x980),
			{0xd, 11, {0x10, 0, 1, 0}}, {0xd, 12, {0x18, 0, 1, 0}}, KVM_LEAVES,
			AMD_EXTENDED(0xa00f11, 0x3030), SVM,
			{0x8000001d, 0, {0x4121, 0x01c0003f, 0x3f, 0}},
			{0x8000001d, 3, {0x3c163, 0x03c0003f, 0x7fff, 1}},
			{0x8000001e, 0, {0, 0x100, 0, 0}}, {0x80000021, 0, {0x4d, 0, 0, 0}},
			{0x80000022, 0, {1, 6, 0, 0}}}},
	[MILAN_NO_NESTED] = {"Milan with nested=0", 0,
		{AMD, {0x1, 0, {0xa00f11, 0x00010800, 0xf6f83203, 0x178bfbff}}, TOPOLOGY(0xb),
			{0x7, 0, {0, 0x219c07a9, 0x0040060c, 0x8c000010}}, XSAVE(0x207, 0x988),
			{0xd, 1, {0xf, 0x240, 0, 0}}, AVX, PKRU(0x980), KVM_LEAVES,
			{0x80000000, 0, {0x80000021, 0x68747541, 0x444d4163, 0x69746e65}},
			{0x80000001, 0, {0xa00f11, 0x40000000, 0x004003f3, 0x2fd3fbff}},
			{0x80000007, 0, {0, 0, 0, 0x100}},
			{0x80000008, 0, {0x3030, 0x1302d205, 0x7000, 0}},
			{0x8000001e, 0, {0, 0x100, 0, 0}}, {0x80000021, 0, {0x4d, 0, 0, 0}}}},
	[GENOA] = {"Genoa", 0x0c000069,
		{AMD, {0x1, 0, {0xa10f11, 0x00010800, 0xf6fa3203, 0x178bfbff}}, TOPOLOGY(0xb),
			{0x7, 0, {1, 0xf1bf07a9, 0x00415f4e, 0xac000010}},
			{0x7, 1, {0x20, 0, 0, 0}}, XSAVE(0x2e7, 0x988),
			{0xd, 1, {0xf, 0x240, 0, 0}}, AVX, AVX512(0x340, 0x380, 0x580), PKRU(0x980),
			KVM_LEAVES, AMD_EXTENDED(0xa10f11, 0x3934), SVM,
			{0x8000001e, 0, {0, 0x100, 0, 0}}, {0x80000021, 0, {0x14d, 0, 0, 0}},
			{0x80000022, 0, {1, 6, 0, 0}}}},
};

const char *real_cpu_name(enum real_cpu cpu)
{
	return cpus[cpu].name;
}

uint64_t real_cpu_capabilities(enum real_cpu cpu)
{
	return cpus[cpu].capabilities;
}

void real_cpu_table(enum real_cpu cpu, struct kvm_cpuid_table *ret)
{
	static const uint32_t indexed[] = {0x4, 0x7, 0xb, 0xd, 0x1d, 0x1e, 0x1f, 0x24, 0x8000001d};

	memset(ret, 0, sizeof(*ret));
	for (const struct row *r = cpus[cpu].rows; r < cpus[cpu].rows + ROWS_MAX; r++) {
		struct kvm_cpuid_entry2 *c = &ret->entries[ret->head.nent];

		if (r > cpus[cpu].rows && r->function == 0)
			break;
		*c = (struct kvm_cpuid_entry2){.function = r->function,
			.index = r->index,
			.eax = r->word[0],
			.ebx = r->word[1],
			.ecx = r->word[2],
			.edx = r->word[3]};
		for (size_t i = 0; i < sizeof(indexed) / sizeof(indexed[0]); i++)
			if (indexed[i] == r->function)
				c->flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX;
		ret->head.nent++;
	}
}
