/* Redirects TCP connections and UDP datagrams to two sockets of the agent, whatever their
 * destination. The kernel runs a BPF program of type SK_LOOKUP before it looks for a listener.
 * Destinations in 127.0.0.0/8 and the guest's own addresses (net_local.h) are not redirected.
 *
 * getsockname() of an accepted connection gives the address that the program dialled. Datagrams
 * carry theirs as IP_ORIGDSTADDR. */
#ifndef AGENT_NET_LOOKUP_H
#define AGENT_NET_LOOKUP_H

#include <netinet/in.h>
#include <stdbool.h>

enum {
	NET_RELAY_PORT = 65533, /* port of 127.0.0.1 that both sockets are bound to. Any free port
				 * would do; the kernel never picks this one, as it is above the
				 * ephemeral range */
	NET_LOCAL_MAX = 256,	/* own addresses of the guest */
};

/* Makes the sockets, and attaches the program to this network namespace for good: its descriptors
 * are never closed. 0 or -errno. The caller owns the sockets; they are non-blocking. */
int net_lookup_open(int *ret_tcp, int *ret_udp);

/* Adds or removes one of the guest's own addresses. Beyond the maximum, addresses count as
 * outside. */
void net_lookup_set_local(struct in_addr a, bool local);
bool net_lookup_is_local(struct in_addr a); /* loopback too */

#endif
