/* A connection to a guest's agent on the event loop: a struct agent_conn with callbacks.
 *
 * Queue requests on agent_link_conn() with the functions of sandbox/agent_client.h (agent_request,
 * agent_exec_start, agent_send_stdin, ...), but never with the blocking ones. Then call
 * agent_link_send(), which writes and waits for room by itself. Replies arrive as events, in order.
 * A stream (EXEC, READ, WATCH, ...) occupies its link, so each client request may open its own.
 * Opening one costs a Unix connection. The caller need not send HELLO: the instance already did.
 *
 * A link for a client's request passes its sandbox's gate (gate.h), so it may wait in a line before
 * it connects. Its owner sees a slow agent: what is queued stays queued. A link that is refused is
 * lost, with ERROR_TOO_MANY.
 *
 * agent_link_open(), _send(), _pause() and _resume() never call back. A callback may close the
 * link. */
#ifndef FLEET_AGENT_LINK_H
#define FLEET_AGENT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "fleet/gate.h"
#include "http/budget.h"
#include "sandbox/agent_client.h"

struct agent_link;

struct agent_link_ops {
	/* The event and what it points to are valid until the next call on the connection. */
	void (*event)(struct agent_link *l, const struct agent_event *ev, void *arg);
	/* The queue is written out, or the process took input: more can be sent. May be NULL. */
	void (*writable)(struct agent_link *l, void *arg);
	/* The link is over: the microVM ended, refused, or broke the protocol; or the gate refused
	 * it (ERROR_TOO_MANY), and nothing was sent. The owner may only call agent_link_close(),
	 * now or later. */
	void (*lost)(struct agent_link *l, const struct error *why, void *arg);
};

/* How a link gets into its sandbox. */
struct agent_way {
	int dirfd;	   /* the sandbox's directory; stays open until gate_close() */
	struct gate *gate; /* NULL: no places are needed */
	unsigned places;   /* of the gate, which it has until its end */
};

/* See instance_agent_connect(). */
int agent_link_open(uv_loop_t *loop, const struct agent_way *way, const struct agent_link_ops *ops,
	void *arg, struct agent_link **ret, struct error *e);

/* The connection, borrowed: to queue requests on it. */
struct agent_conn *agent_link_conn(struct agent_link *l);

/* Counts what waits for the agent, once it is charged to an account. */
struct budget_hold *agent_link_hold(struct agent_link *l);
/* Whether more may be queued: fewer than `max` bytes wait, and none if the budget is short. The
 * callback `writable` follows when they are written out. */
bool agent_link_has_room(struct agent_link *l, size_t max);

/* Sends what is queued. */
void agent_link_send(struct agent_link *l);

/* While paused, the link reads nothing and delivers no events: back-pressure on the agent. */
void agent_link_pause(struct agent_link *l);
void agent_link_resume(struct agent_link *l);

/* Takes the connection after the OK of a DIAL. Returns its descriptor (non-blocking, the caller's)
 * or -errno. *ret_early receives the bytes that came after the OK (malloc'ed, may be NULL). *places
 * receives what the link has of the gate. Only from the event callback or while paused. The caller
 * must still close the link. */
int agent_link_take_fd(struct agent_link *l, uint8_t **ret_early, size_t *ret_early_bytes,
	struct gate_ticket *places);

/* Closes the link; no callback follows. NULL is fine. */
void agent_link_close(struct agent_link *l);

#endif
