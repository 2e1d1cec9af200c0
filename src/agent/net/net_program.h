/* Which program of the guest has a connection: a hint for people, found in /proc. */
#ifndef AGENT_NET_PROGRAM_H
#define AGENT_NET_PROGRAM_H

#include <netinet/in.h>

#include "proto/egress_wire.h"

/* Sets pid and name of *ret to the process that has a TCP socket with these two ends, the newest
 * one of several. Leaves them as they are if none is found: it is in another network namespace, or
 * there are too many sockets or descriptors to look at. */
void net_program_find(
	const struct sockaddr_in *from, const struct sockaddr_in *to, struct egress_open *ret);

#endif
