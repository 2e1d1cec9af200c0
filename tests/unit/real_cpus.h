/* What KVM reports as supported on real CPUs: the leaves that matter (KVM_GET_SUPPORTED_CPUID), as
 * public CPUID dumps record them, and IA32_ARCH_CAPABILITIES. */
#ifndef TESTS_REAL_CPUS_H
#define TESTS_REAL_CPUS_H

#include "vmm/cpuid.h"

enum real_cpu {
	CASCADE_LAKE,
	CASCADE_LAKE_TSX, /* an older microcode */
	ICE_LAKE,
	SAPPHIRE_RAPIDS,
	SAPPHIRE_RAPIDS_HALF, /* Linux 5.17 to 6.3: XTILE_CFG without XTILE_DATA */
	GRANITE_RAPIDS,	      /* Linux 6.18: with CET */
	MILAN,
	MILAN_NO_NESTED, /* nested=0, enable_pmu=0 */
	GENOA,
	REAL_CPUS
};

const char *real_cpu_name(enum real_cpu cpu);

void real_cpu_table(enum real_cpu cpu, struct kvm_cpuid_table *ret);
uint64_t real_cpu_capabilities(enum real_cpu cpu);

#endif
