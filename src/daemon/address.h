/* Addresses that a stranger may make the daemon connect to. */
#ifndef DAEMON_ADDRESS_H
#define DAEMON_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Whether it is a unicast address of the public internet: none that the registries of special
 * addresses name (RFC 6890), as loopback, private, link-local, shared, documentation and multicast
 * ones, nor an IPv6 address that stands for such an IPv4 address. */
bool address_is_public(const struct sockaddr *a);

/* Whether it is an address of this host's own interfaces, public ones included: what listens there may
 * trust this host. True as well when that cannot be told. Asks the kernel each time, since
 * addresses come and go. */
bool address_is_own(const struct sockaddr *a);

#endif
