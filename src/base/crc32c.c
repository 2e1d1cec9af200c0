#include "base/crc32c.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static uint32_t crc32c_table(uint32_t crc, const uint8_t *p, size_t n)
{
	while (n--) {
		crc ^= *p++;
		for (int i = 0; i < 8; i++)
			crc = crc & 1 ? crc >> 1 ^ UINT32_C(0x82f63b78) : crc >> 1;
	}
	return crc;
}

#if defined(__x86_64__)
/* Asks CPUID itself, once. __builtin_cpu_supports would ask a dozen times at the start of every
 * program, and each CPUID is slow in a virtual machine. */
static bool has_sse42(void)
{
	static atomic_int answer; /* 0: not asked yet */
	unsigned a, b, c, d;
	int known = atomic_load_explicit(&answer, memory_order_relaxed);

	if (!known) {
		__cpuid(1, a, b, c, d);
		known = c & bit_SSE4_2 ? 1 : -1;
		atomic_store_explicit(&answer, known, memory_order_relaxed);
	}
	return known > 0;
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(
	uint32_t crc, const uint8_t *p, size_t n)
{
	uint64_t c = crc;

	for (; n >= 8; n -= 8, p += 8) {
		uint64_t v;

		memcpy(&v, p, sizeof(v));
		c = __builtin_ia32_crc32di(c, v);
	}
	crc = (uint32_t)c;
	for (; n; n--, p++)
		crc = __builtin_ia32_crc32qi(crc, *p);
	return crc;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t n)
{
	crc = ~crc;
#if defined(__x86_64__)
	if (has_sse42())
		return ~crc32c_sse42(crc, data, n);
#endif
	return ~crc32c_table(crc, data, n);
}
