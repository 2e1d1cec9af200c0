/* The datagrams of a guest: records on one stream, a connected socket for each pair of ends, as a
 * NAT with mappings and filters by address and port has them. What cannot go on is dropped.
 *
 * There are at most `datagramPeers` pairs; a new one takes the place of the one that is unused for
 * the longest time. A pair that the policy denies stays among them, so that it is logged once.
 * Datagrams to port 53 are answered here. */
#ifndef EGRESS_DATAGRAMS_H
#define EGRESS_DATAGRAMS_H

#include "egress/context.h"

struct datagrams;

struct datagrams *datagrams_make(struct context *c); /* NULL: out of memory */
void datagrams_free(struct datagrams *d);

/* Takes a stream over whose header was answered. An older one ends. */
void datagrams_take(struct datagrams *d, int fd);

/* A new policy is in force. */
void datagrams_judge(struct datagrams *d);

#endif
