/* Leads TCP connections and UDP datagrams, to whatever address, to two sockets of the agent: a BPF
 * program of type SK_LOOKUP, which the kernel runs before it looks for a listener. Not those to
 * 127.0.0.0/8 and to the guest's own addresses (net_local.h).
 *
 * getsockname() of an accepted connection is the address that the program dialled. Datagrams come
 * with it (IP_ORIGDSTADDR). */
#ifndef AGENT_NET_LOOKUP_H
#define AGENT_NET_LOOKUP_H

#include <netinet/in.h>
#include <stdbool.h>

enum {
	NET_RELAY_PORT = 65533, /* of 127.0.0.1: where both sockets are bound. Any would do; it is
				 * beyond those that the kernel chooses, and taken by nobody */
	NET_LOCAL_MAX = 256,	/* addresses of the guest's own */
};

/* Makes the sockets and attaches the program to this network namespace, for good: the descriptors
 * that hold it are never closed. 0 or -errno. The caller owns the sockets; they are
 * non-blocking. */
int net_lookup_open(int *ret_tcp, int *ret_udp);

/* The guest's own addresses. Those beyond the maximum are treated as the host's. */
void net_lookup_set_local(struct in_addr a, bool local);
bool net_lookup_is_local(struct in_addr a); /* loopback too */

#endif
