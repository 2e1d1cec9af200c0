/* One request to a sandbox's envd that needs its agent: the client's request, a link to the agent,
 * two timers, and the handler that joins them.
 *
 * A call is made by envd_call_new() and lives until the server says that the request is done; it
 * ends by envd_call_finish() (after the answer was ended), by one of the failing functions, or by
 * the client's going. The link is closed then: that ends whatever the agent did for this call but
 * never a process.
 *
 * Back-pressure: envd_call_write() pauses the link while the client is slow, and the server's
 * `drained` resumes it. The other way, a handler that takes a body pauses the request while
 * envd_call_can_send() is false, and goes on in ops->writable. */
#ifndef DAEMON_ENVD_CALL_H
#define DAEMON_ENVD_CALL_H

#include <stdbool.h>
#include <uv.h>

#include "base/buf.h"
#include "fleet/agent_link.h"
#include "envd/envd_reply.h"
#include "fleet/instance.h"
#include "http/request.h"
#include "proto/connect.h"

struct envd_call;

struct envd_ops {
	/* Tells the client: an ERROR of the agent, a lost link, a deadline. */
	void (*fail)(struct envd_call *c, const struct envd_error *e);
	/* Any event but ERROR; ERROR goes to `refused`, or if that is NULL to `fail`. */
	void (*event)(struct envd_call *c, const struct agent_event *ev);
	void (*refused)(struct envd_call *c, const struct agent_error *m);
	void (*writable)(struct envd_call *c);
	void (*body)(struct envd_call *c, const uint8_t *data, size_t n);
	void (*body_end)(struct envd_call *c);
	void (*drained)(struct envd_call *c); /* besides resuming the link */
	void (*keepalive)(struct envd_call *c);
	void (*done)(struct envd_call *c); /* free `state` */
};					   /* all but fail may be NULL */

enum {
	ENVD_OUT_MAX = 2 * 1024 * 1024, /* one piece of an answer */
	ENVD_QUEUE_HIGH = 128 * 1024,	/* bytes waiting for the agent: then the body is paused */
};

struct envd_call {
	struct request *r;
	const struct envd_ops *ops;
	char sandbox_id[ROUTE_SANDBOX_ID_MAX + 1];
	struct agent_link *link;    /* NULL: not opened, or closed */
	struct connect_request rpc; /* of RPCs */
	struct buf out;		    /* an answer, or a piece of one, being put together */
	uv_timer_t *keepalive, *deadline;
	const char *refusal; /* class of the agent's ERROR, once there was one */
	bool over;	     /* answered: nothing is looked at any more */
	unsigned step;	     /* the handler's own */
	void *state;	     /* likewise */
};

/* NULL: out of memory, and the request was answered. Sets the request's ops. */
struct envd_call *envd_call_new(
	struct request *r, const struct instance *i, const struct envd_ops *ops);

/* Sends one message to the agent, opening the link at the first. 0 or -errno with *e. */
int envd_call_ask(
	struct envd_call *c, enum agent_type type, const void *message, struct envd_error *e);
/* Closes the link; the next ask opens another. */
void envd_call_hang_up(struct envd_call *c);

bool envd_call_can_send(const struct envd_call *c);

/* Part of a streamed answer. Any failure (the client is too slow for what cannot be held back, or
 * memory is short) aborts the connection. */
void envd_call_write(struct envd_call *c, const void *data, size_t n);
void envd_call_flush(struct envd_call *c); /* the same with all of c->out, which is emptied */

/* The answer was ended: lets go of link and timers. */
void envd_call_finish(struct envd_call *c);
void envd_call_abort(struct envd_call *c);

/* Runs out: ops->fail with deadline_exceeded. */
int envd_call_set_deadline(struct envd_call *c, uint64_t ms);
/* ops->keepalive every `seconds` in which envd_call_write was not called. */
int envd_call_set_keepalive(struct envd_call *c, uint32_t seconds);

/* ops->fail of the plain HTTP endpoints: an error, or the end of the connection when an answer has
 * begun. */
void envd_call_fail_http(struct envd_call *c, const struct envd_error *e);

#endif
