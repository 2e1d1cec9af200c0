/* Measures how fast KVM runs guest kernels here.
 *
 * That /dev/kvm exists does not tell. Some hosts are virtual machines whose hypervisor offers them
 * no hardware virtualisation. There, guest user code runs natively while guest kernel code is
 * interpreted instruction by instruction. So a throw-away VM runs a short loop in 64-bit kernel
 * mode and is timed. It ends after PROBE_CEILING_MS at the latest, and a slow result is tried
 * again: a busy host may have taken the CPU away meanwhile, which this host cannot see if it is a
 * virtual machine itself. On a fast host it takes about a millisecond, most of it to create the
 * VM. */
#ifndef SANDBOX_PROBE_H
#define SANDBOX_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	PROBE_CEILING_MS = 120,
	PROBE_TRIES = 3,
	PROBE_SLOW_MIPS = 50, /* below this a host is slow: a boot takes some 10^9 instructions */
};

struct probe {
	uint64_t instructions; /* of the loop that were run */
	uint64_t ns;	       /* in this time */
	double mips;	       /* million instructions per second */
	bool slow;
};

/* kvm_fd: from kvm_open(). Blocks for at most PROBE_TRIES times PROBE_CEILING_MS of processor time
 * plus the creation of a VM. Uses SIGRTMIN for the ceiling and blocks it in this thread meanwhile.
 * Only one thread at a time may call it. */
int probe_speed(int kvm_fd, struct probe *ret, struct error *e);

/* ERROR_HOST_SLOW in words when the result is slow, else 0. */
int probe_check(const struct probe *p, struct error *e);

/* Opens /dev/kvm, measures it and checks the result. Blocks as probe_speed. */
int probe_host(struct error *e);

enum { PROBE_VENDOR_BYTES = 13 };

/* Returns the signature of the hypervisor that this host itself runs under, from CPUID
 * ("KVMKVMKVM", "TCGTCGTCGTCG"). It is "" when there is none or it hides. False when CPUID shows no
 * hypervisor. */
bool probe_hypervisor(char vendor[PROBE_VENDOR_BYTES]);
/* Returns a name for people: "KVM", "QEMU without hardware virtualisation (TCG)", or the
 * signature. */
const char *probe_hypervisor_name(const char *vendor);

#endif
