/* A request to a sandbox's envd that needs its agent. It joins the client's request, a link to the
 * agent, two timers, and a handler.
 *
 * envd_call_new() creates a call, which lives until the server says that the request is done. A
 * call ends by envd_call_finish() (after the answer has ended), by a failing function, or because
 * the client goes. Then its link is closed. That ends the agent's work for this call, but never a
 * process.
 *
 * Back-pressure: envd_call_write() pauses the link while the client is slow, and the server's
 * `drained` resumes it. In the other direction, a handler that takes a body pauses the request
 * while envd_call_can_send() is false. It continues in ops->writable. */
#ifndef ENVD_CALL_H
#define ENVD_CALL_H

#include <stdbool.h>
#include <uv.h>

#include "base/buf.h"
#include "envd/envd_reply.h"
#include "fleet/agent_link.h"
#include "fleet/instance.h"
#include "http/request.h"
#include "proto/connect.h"

struct envd_call;

struct envd_ops {
	/* Tells the client of an ERROR of the agent, a lost link, or a deadline. */
	void (*fail)(struct envd_call *c, const struct envd_error *e);
	/* Any event but ERROR. An ERROR goes to `refused`, or to `fail` if that is NULL. */
	void (*event)(struct envd_call *c, const struct agent_event *ev);
	void (*refused)(struct envd_call *c, const struct agent_error *m);
	void (*writable)(struct envd_call *c);
	void (*body)(struct envd_call *c, const uint8_t *data, size_t n);
	void (*body_end)(struct envd_call *c);
	void (*drained)(struct envd_call *c); /* called after the link was resumed */
	void (*keepalive)(struct envd_call *c);
	void (*done)(struct envd_call *c); /* frees `state` */
};					   /* all but fail may be NULL */

enum {
	ENVD_OUT_MAX = 2 * 1024 * 1024, /* for one piece of an answer */
	ENVD_QUEUE_HIGH = 128 * 1024,	/* bytes waiting for the agent at which the body is
					 * paused */
};

struct envd_call {
	struct request *r;
	const struct envd_ops *ops;
	char sandbox_id[ROUTE_SANDBOX_ID_MAX + 1];
	struct agent_link *link;    /* NULL: not opened, or closed */
	struct connect_request rpc; /* for RPCs */
	struct buf out;		    /* the answer, or the piece of it, being built */
	uv_timer_t *keepalive, *deadline;
	const char *refusal; /* class of the agent's ERROR, or NULL */
	bool second_link;    /* set before the first message: the handler will open one more */
	bool over;	     /* answered: everything further is ignored */
	unsigned step;	     /* for the handler */
	void *state;	     /* for the handler */
};

/* Creates a call and sets the request's ops. NULL: out of memory, and the request was answered. */
struct envd_call *envd_call_new(
	struct request *r, const struct instance *i, const struct envd_ops *ops);

/* Sends a message to the agent; the first one opens the link. Returns 0, or -errno with *e. */
int envd_call_ask(
	struct envd_call *c, enum agent_type type, const void *message, struct envd_error *e);

/* Whether a piece of a body may be queued for the agent now. */
bool envd_call_can_send(const struct envd_call *c);

/* Writes part of a streamed answer. A failure aborts the connection: memory is short, or the client
 * is too slow for data that cannot be held back. */
void envd_call_write(struct envd_call *c, const void *data, size_t n);
void envd_call_flush(struct envd_call *c); /* the same with all of c->out, which is emptied */

/* Closes link and timers after the end of the answer. */
void envd_call_finish(struct envd_call *c);
void envd_call_abort(struct envd_call *c);

/* When the time runs out, calls ops->fail with deadline_exceeded. */
int envd_call_set_deadline(struct envd_call *c, uint64_t ms);
/* Calls ops->keepalive after every `seconds` without an envd_call_write(). */
int envd_call_set_keepalive(struct envd_call *c, uint32_t seconds);

/* ops->fail of the plain HTTP endpoints: answers with an error. If an answer has begun, it cuts the
 * connection. */
void envd_call_fail_http(struct envd_call *c, const struct envd_error *e);

#endif
