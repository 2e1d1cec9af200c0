/* Which replies an agent owes: the requests of one connection that wait, in order, and what the
 * first of them may be answered with (docs/agent-protocol.md). An agent that says anything else
 * breaks the protocol, so a connection that asked for nothing hears nothing. */
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

/* A request is being sent; message is the struct of its type. Types that belong into a stream are
 * answered by nothing and change nothing. 0, -EMSGSIZE (too many wait) or -ENOMEM. */
int agent_replies_expect(struct agent_replies *a, enum agent_type type, const void *message);

/* A message of that type came. 0, or -EBADMSG: it is not due. */
int agent_replies_take(struct agent_replies *a, enum agent_type type);

#endif
