/* The datagrams of a guest. They come as records on one stream. Each pair of ends has a connected
 * socket, so mappings and filters are by address and port, as in a NAT. A datagram that cannot be
 * sent at once is dropped.
 *
 * There are at most `datagramPeers` pairs. A new pair replaces the least recently used one. A pair
 * that the policy denies is kept, too, so that it is logged once. Datagrams to port 53 are answered
 * here. */
#ifndef EGRESS_DATAGRAMS_H
#define EGRESS_DATAGRAMS_H

#include "egress/context.h"

struct datagrams;

struct datagrams *datagrams_make(struct context *c); /* NULL: out of memory */
void datagrams_free(struct datagrams *d);

/* Takes over a stream whose header was answered. Ends an older stream. */
void datagrams_take(struct datagrams *d, int fd);

/* A new policy is in force. */
void datagrams_judge(struct datagrams *d);

#endif
