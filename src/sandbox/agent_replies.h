/* Keeps track of the replies that an agent owes: the waiting requests of one connection, in order,
 * and what may answer the first of them (docs/agent-protocol.md). An agent that says anything else
 * breaks the protocol. So a connection that asked for nothing receives nothing. */
#ifndef SANDBOX_AGENT_REPLIES_H
#define SANDBOX_AGENT_REPLIES_H

#include <stdbool.h>

#include "base/buf.h"
#include "proto/agent_wire.h"

enum { AGENT_REPLIES_MAX = 4096 }; /* requests that wait */

struct agent_replies {
	struct buf waiting; /* a byte per request: its exchange */
	bool begun;	    /* the first one's STARTED, ENTRY or OK came, and more follows */
};

void agent_replies_init(struct agent_replies *a);
void agent_replies_done(struct agent_replies *a);

/* Notes that a request is being sent. message is the struct of its type. Types that belong to a
 * stream get no reply and change nothing. Returns 0, -EMSGSIZE (too many wait) or -ENOMEM. */
int agent_replies_expect(struct agent_replies *a, enum agent_type type, const void *message);

/* Notes that a message of this type came. Returns 0, or -EBADMSG if it is not due. */
int agent_replies_take(struct agent_replies *a, enum agent_type type);

#endif
