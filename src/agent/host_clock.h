/* The host's clock, which the guest's kernel reads from KVM (ptp_kvm). No message is involved, so
 * it is accurate to microseconds however busy the host is. Not every host and kernel has it. */
#ifndef AGENT_HOST_CLOCK_H
#define AGENT_HOST_CLOCK_H

#include <stdint.h>

/* Call once. If it fails, host_clock_ns returns 0. */
void host_clock_open(void);

/* CLOCK_REALTIME of the host; 0: cannot be read. Takes one VM exit. */
uint64_t host_clock_ns(void);

/* Sets CLOCK_REALTIME. told_ns is the time that the host sent, possibly a while ago. Uses the
 * host's clock if it is plausible for that, otherwise told_ns. 0 or errno. */
int host_clock_set(uint64_t told_ns);

#endif
