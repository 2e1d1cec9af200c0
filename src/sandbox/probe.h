/* How fast does KVM run guest kernels here?
 *
 * /dev/kvm being there does not say: on some hosts (virtual machines whose hypervisor offers no
 * hardware virtualisation to its guests) guest user code runs natively while guest kernel code is
 * interpreted instruction by instruction. So a throw-away VM runs a short loop in 64-bit kernel
 * mode and is timed. It ends after PROBE_CEILING_MS whatever happens; on a fast host it takes about
 * a millisecond, most of it making the VM. */
#ifndef VMM_PROBE_H
#define VMM_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	PROBE_CEILING_MS = 120,
	PROBE_SLOW_MIPS = 50, /* less than this is slow: a boot takes some 10^9 instructions */
};

struct probe {
	uint64_t instructions; /* of the loop that were run */
	uint64_t ns;	       /* in this time */
	double mips;	       /* million instructions per second */
	bool slow;
};

/* kvm_fd: of kvm_open(). Blocks for at most PROBE_CEILING_MS of processor time and what making a VM
 * takes. SIGRTMIN is used for the ceiling, blocked in this thread meanwhile. Not for two threads at
 * once. */
int probe_speed(int kvm_fd, struct probe *ret, struct error *e);

/* ERROR_HOST_SLOW in words when the result is slow, else 0. */
int probe_check(const struct probe *p, struct error *e);

enum { PROBE_VENDOR_BYTES = 13 };

/* The hypervisor that this host itself runs under, as CPUID tells: its signature ("KVMKVMKVM",
 * "TCGTCGTCGTCG"), "" when there is none or it hides. False when CPUID shows no hypervisor. */
bool probe_hypervisor(char vendor[PROBE_VENDOR_BYTES]);
/* A name for people: "KVM", "QEMU without hardware virtualisation (TCG)", or the signature. */
const char *probe_hypervisor_name(const char *vendor);

#endif
