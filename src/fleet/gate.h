/* Bounds the links of clients' requests into one sandbox. The others wait in a line.
 *
 * A sandbox's agent serves AGENT_CONNECTIONS_MAX links. GATE_PLACES of them are for clients'
 * requests, connections of other sandboxes among them. The rest is always free for the daemon's own
 * calls, which pass no gate. So no client can keep the daemon from pausing or measuring a sandbox.
 *
 * Tickets enter in the order in which they asked. A ticket may ask for several places at once, for
 * requests that need several links, so that such requests never wait for each other.
 *
 *	NONE     has not asked, or has left
 *	WAITS    stands in the line
 *	IN       has its places until gate_leave()
 *	REFUSED  GATE_WAITING_MAX others wait, or it has waited for GATE_WAIT_MS
 *	CLOSED   the sandbox ended while it waited
 *
 * No function calls back but through `called`, which tells a ticket that it no longer waits. It
 * must not call into this module. All is for the loop's thread. */
#ifndef FLEET_GATE_H
#define FLEET_GATE_H

#include <assert.h>
#include <stdint.h>
#include <uv.h>

#include "proto/agent_wire.h"

enum {
	GATE_PLACES = 224,
	GATE_WAITING_MAX = 1024, /* tickets */
	GATE_WAIT_MS = 10 * 1000,
	GATE_TICKET_PLACES_MAX = 2,
};
static_assert((int)GATE_PLACES < (int)AGENT_CONNECTIONS_MAX, "the daemon's own calls have links");

struct gate;

enum gate_state { GATE_NONE, GATE_WAITS, GATE_IN, GATE_REFUSED, GATE_CLOSED };

/* Embedded in its owner, who calls gate_leave() before freeing it; all zero before gate_enter(). */
struct gate_ticket {
	enum gate_state state;
	void (*called)(struct gate_ticket *t);
	void *arg;
	/* Private. */
	struct gate *gate; /* unless NONE */
	struct gate_ticket *next, *prev;
	unsigned places;
	uint64_t late_ms; /* of uv_now() */
};

/* NULL: out of memory. */
struct gate *gate_new(uv_loop_t *loop);
/* Refuses everybody who waits. The gate is freed with its last ticket. NULL is fine. */
void gate_close(struct gate *g);

/* Asks for `places`, 1 to GATE_TICKET_PLACES_MAX. The answer is t->state: IN, WAITS or REFUSED. */
void gate_enter(struct gate *g, struct gate_ticket *t, unsigned places);
/* Gives the places back, or leaves the line. Also fine for NONE. */
void gate_leave(struct gate_ticket *t);
/* Gives the places of a ticket that is IN, or NONE, to another, which has none. */
void gate_pass(struct gate_ticket *from, struct gate_ticket *to);

#endif
