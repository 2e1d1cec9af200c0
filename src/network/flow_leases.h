/* Lends flows to the workers of sandboxes, so that all sandboxes of a key and of the host have a
 * bound together (policy/network_floor.h). A worker asks for some more than it has, and gives back
 * what it does not need (docs/egress-protocol.md). What is lent counts, used or not.
 *
 * A worker is not trusted. One that was taken over can hold what its sandbox may have, and no more.
 * What it opens beyond what is lent, its own limit of descriptors bounds. */
#ifndef NETWORK_FLOW_LEASES_H
#define NETWORK_FLOW_LEASES_H

#include <jansson.h>
#include <stdbool.h>

struct fleet;
struct flow_lease;

enum { FLOW_LEASE_FIRST = 2 }; /* lent before a worker asks, if there are any */

/* For one worker. found: it is an earlier daemon's, so the first number of flows that it tells
 * counts even if that is more than may be lent. Returns NULL when out of memory. */
struct flow_lease *flow_lease_open(struct fleet *f, const char *key_id, bool found);
/* The worker is gone. NULL is fine. */
void flow_lease_close(struct flow_lease *l);

/* Makes the line that tells the worker what is lent to it. The caller frees it. Returns NULL when
 * out of memory. */
char *flow_lease_line(const struct flow_lease *l);

/* Takes the member `flows` of a line of the worker, and lends what there is. Ignores anything that
 * is no such message. */
void flow_lease_take(struct flow_lease *l, const json_t *said);

#endif
