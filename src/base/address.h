/* Checks addresses before a program of ours connects to them, if a stranger may have chosen
 * them. */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Whether it is a unicast address of the public internet. That excludes all special addresses (RFC
 * 6890): loopback, private, link-local, shared, documentation and multicast ones. It also excludes
 * IPv6 addresses that stand for such an IPv4 address. */
bool address_is_public(const struct sockaddr *a);

/* Whether it is an address of this host's own interfaces, even a public one: a service there may
 * trust this host. Also true if the kernel cannot tell. Asks the kernel at each call, since
 * addresses change. */
bool address_is_own(const struct sockaddr *a);

/* Whether a host name means this host: "localhost" in upper or lower case, or a loopback address.
 * Accepts "host", "host:port" and "[address]:port", each with or without "/..." behind it. Asks no
 * resolver. */
bool address_host_is_loopback(const char *host);

#endif
