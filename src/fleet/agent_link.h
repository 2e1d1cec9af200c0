/* A connection to a guest's agent on the event loop: struct agent_conn with callbacks.
 *
 * Requests are queued on agent_link_conn() with the functions of sandbox/agent_client.h (agent_request,
 * agent_exec_start, agent_send_stdin, ...; never the blocking ones), then agent_link_send() is
 * called, which writes and waits for room by itself. Replies come as events in order. Each request
 * of a client may have its own link, as streams (EXEC, READ, WATCH, ...) occupy one; opening costs
 * a Unix connection. A HELLO need not be sent: the instance did once.
 *
 * Callbacks are never made from within agent_link_open(), _send(), _pause() or _resume(). A
 * callback may close the link. */
#ifndef DAEMON_AGENT_LINK_H
#define DAEMON_AGENT_LINK_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "sandbox/agent_client.h"

struct agent_link;

struct agent_link_ops {
	/* What it points to is valid until the next call on the connection. */
	void (*event)(struct agent_link *l, const struct agent_event *ev, void *arg);
	/* The queue was written out: more can be sent. May be NULL. */
	void (*writable)(struct agent_link *l, void *arg);
	/* Over: the microVM ended, refused, or broke the protocol. Only agent_link_close() is left
	 * to be called, now or later. */
	void (*lost)(struct agent_link *l, const struct error *why, void *arg);
};

/* dirfd: the sandbox's directory. See instance_agent_connect(). */
int agent_link_open(uv_loop_t *loop, int dirfd, const struct agent_link_ops *ops, void *arg,
	struct agent_link **ret, struct error *e);

struct agent_conn *agent_link_conn(struct agent_link *l);

/* Call it after queueing. */
void agent_link_send(struct agent_link *l);

/* Between the two no event is delivered and nothing is read: back-pressure on the agent. */
void agent_link_pause(struct agent_link *l);
void agent_link_resume(struct agent_link *l);

/* After the OK of a DIAL: the descriptor (non-blocking), which is the caller's, and what was
 * received behind the OK (*ret_early malloc'ed, may be NULL). Only from the event callback or while
 * paused. The link must still be closed. -errno. */
int agent_link_take_fd(struct agent_link *l, uint8_t **ret_early, size_t *ret_early_bytes);

/* No callback comes any more. NULL is fine. */
void agent_link_close(struct agent_link *l);

#endif
