/* Checks addresses that a stranger may make a program of ours connect to. */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Whether it is a unicast address of the public internet. That excludes all special addresses (RFC
 * 6890): loopback, private, link-local, shared, documentation and multicast ones. It also excludes
 * IPv6 addresses that stand for such an IPv4 address. */
bool address_is_public(const struct sockaddr *a);

/* Whether it is an address of this host's own interfaces, public ones included: a service there may
 * trust this host. Also true if that is unknown. Asks the kernel each time, since addresses
 * change. */
bool address_is_own(const struct sockaddr *a);

/* Whether a host by name ("host", "host:port", "[address]:port", and what may follow a slash) is
 * this one: localhost, in any case, or a loopback address. Asks no resolver. */
bool address_host_is_loopback(const char *host);

#endif
