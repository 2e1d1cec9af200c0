/* Streams to the host's worker (docs/egress-protocol.md). */
#ifndef AGENT_NET_HOST_H
#define AGENT_NET_HOST_H

#include <netinet/in.h>

#include "proto/egress_wire.h"

/* Begins to connect. Returns a non-blocking descriptor, which becomes writable when it is connected
 * or has failed; or -errno. */
int net_host_connect(void);

/* Returns 0 when it is connected, or a positive errno: ETIMEDOUT if the host did not answer within
 * two seconds, another (ECONNRESET) if this sandbox has no network. */
int net_host_connected(int fd);

/* Convert an address between the socket's form and the wire's. */
struct egress_endpoint net_endpoint(const struct sockaddr_in *sa);
struct sockaddr_in net_sockaddr(const struct egress_endpoint *e);

#endif
