/* The host's own clock, read from KVM by the guest's kernel (ptp_kvm): no message is under way, so
 * it is right to microseconds however busy the host is. Not every host and kernel has it. */
#ifndef AGENT_HOST_CLOCK_H
#define AGENT_HOST_CLOCK_H

#include <stdint.h>

/* Once; without it the others say that there is none. */
void host_clock_open(void);

/* CLOCK_REALTIME of the host, 0: cannot be read. One exit. */
uint64_t host_clock_ns(void);

/* Sets CLOCK_REALTIME: to the host's clock if that is what the host may have told told_ns ago, else
 * to told_ns. 0 or errno. */
int host_clock_set(uint64_t told_ns);

#endif
