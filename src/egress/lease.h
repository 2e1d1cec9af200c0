/* How many flows the daemon lends this worker, of those that a key and the host may have in all
 * (network/flow_leases.h). Until it says so first, the policy's limit alone counts.
 *
 * A worker asks ahead, so most flows find room. One that finds none waits for the answer. What is
 * lent but not needed goes back when flows end. When the daemon has no more to lend, flows are
 * refused for LEASE_REST_MS without another question. Peers of datagrams count as flows. */
#ifndef EGRESS_LEASE_H
#define EGRESS_LEASE_H

#include <jansson.h>

#include "egress/context.h"

enum {
	LEASE_AHEAD = 2,      /* at least so many are asked for beyond those that are there */
	LEASE_SHARE = 8,      /* and at least this part of them */
	LEASE_REST_MS = 100,  /* after a refusal */
	LEASE_WAIT_MS = 5000, /* for the daemon, which may be starting */
};

enum lease_verdict { LEASE_ROOM, LEASE_WAIT, LEASE_REFUSED };

/* Whether one more flow may be. */
enum lease_verdict lease_look(struct context *c);

/* A flow has ended. */
void lease_left(struct context *c);

/* Takes the member `flows` of a line of the daemon. Returns 0, or -EINVAL if it is malformed. */
int lease_take(struct context *c, const json_t *said);

/* Tells a new daemon what there is. */
void lease_tell(struct context *c);

/* The rule and the reason of a refusal. */
const char *lease_rule(const struct context *c);
const char *lease_reason(const struct context *c);

#endif
