/* The hash of this host's CPU facts (vmm/cpu_model.h), kept: every restore compares it with its
 * snapshot's. */
#ifndef SANDBOX_HOST_CPU_H
#define SANDBOX_HOST_CPU_H

#include <stdint.h>

/* 0 when KVM cannot tell. Asks KVM the first time, and again when its modules were loaded anew, whose
 * parameters may be others then. From any thread. */
uint64_t host_cpu_hash(void);

#endif
