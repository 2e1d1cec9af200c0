/* Tells whether an address is this host's own. It asks the kernel's routing table for each flow, so
 * addresses that the host gets later count, and so do ranges that are routed to the host itself. */
#ifndef DIALLER_OWN_H
#define DIALLER_OWN_H

#include <stdint.h>

/* Returns a descriptor for own_is(), or -errno. */
int own_open(void);

/* Returns 1 for an address of the host, and for a broadcast or multicast address of its networks.
 * Returns 0 for any other, also without a route. Returns -errno if the kernel did not answer. Does
 * not wait. */
int own_is(int fd, uint32_t address);

#endif
