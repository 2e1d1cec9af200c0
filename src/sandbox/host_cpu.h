/* Caches the hash of this host's CPU facts (vmm/cpu_model.h): every restore compares it with its
 * snapshot's. */
#ifndef SANDBOX_HOST_CPU_H
#define SANDBOX_HOST_CPU_H

#include <stdint.h>

/* Returns 0 when KVM cannot tell. Asks KVM the first time, and again after its modules were
 * reloaded, as their parameters may differ then. Any thread may call it. */
uint64_t host_cpu_hash(void);

#endif
