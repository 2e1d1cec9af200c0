/* Whether a snapshot's CPU and this host's go together.
 *
 * A fingerprint of the host's CPU is stored with each snapshot. Equal fingerprints are compatible
 * without further questions, which is cheap enough for every restore; otherwise the guest's CPUID
 * must be a subset of what KVM supports here. */
#ifndef VMM_CPU_MODEL_H
#define VMM_CPU_MODEL_H

#include <stdint.h>

#include "base/error.h"
#include "vmm/kvm.h"

enum { CPUID_FINGERPRINT_WORDS = 24 };

void cpuid_fingerprint(uint32_t out[CPUID_FINGERPRINT_WORDS]);

/* 0, or ERROR_INCOMPATIBLE naming what is missing here. */
int cpuid_check_subset(
	const struct kvm_cpuid_table *guest, const struct kvm_cpuid_table *host, struct error *e);

#endif
