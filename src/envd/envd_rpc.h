/* Connect RPCs of envd: from an HTTP request to a method with its JSON, and the two forms of
 * answers, unary and streamed. */
#ifndef DAEMON_ENVD_RPC_H
#define DAEMON_ENVD_RPC_H

#include <jansson.h>

#include "envd/envd_call.h"

struct envd_method {
	const char *path; /* "/process.Process/Start" */
	enum connect_kind kind;
	/* Asks the agent, or answers. 0, or -errno with *e filled. o is gone when it returns. */
	int (*begin)(struct envd_call *c, const json_t *o, struct envd_error *e);
	/* ops->fail must be envd_rpc_fail. */
	const struct envd_ops *ops;
	/* Instead of begin: takes the streamed body itself. NULL for all but client streams. */
	void (*open)(struct envd_call *c);
	size_t body_max; /* of the request's message; 0: ENVD_BODY_MAX */
};

/* The longest command line and environment, written as JSON. */
enum { ENVD_BODY_MAX = 1024 * 1024 };

/* By path, or NULL. */
const struct envd_method *envd_rpc_find(const char *path);

extern const struct envd_method envd_process_methods[];	   /* path NULL ends it */
extern const struct envd_method envd_filesystem_methods[]; /* likewise */

/* The request is on an RPC's path, and allowed. */
void envd_rpc_dispatch(struct request *r, const struct instance *i, const struct envd_method *m);

/* --- answers; each ends the call --- */

/* An error in the form of the method's kind, also amid a stream. For a sandbox that cannot be reached
 * it is the proxy's answer while nothing was sent; amid a stream the connection is cut, without the
 * envelope that ends a stream, so that the SDKs ask whether the sandbox is still there. */
void envd_rpc_fail(struct envd_call *c, const struct envd_error *e);
/* The unary answer in c->out. */
void envd_rpc_reply(struct envd_call *c);
void envd_rpc_reply_text(struct envd_call *c, const char *json);

/* --- streams: c->out holds whole envelopes --- */

/* Begins the answer and sends what is in c->out. False: the client has gone. */
bool envd_rpc_stream(struct envd_call *c);
/* Adds the envelope that ends a stream without an error, sends all and ends. */
void envd_rpc_end(struct envd_call *c);

/* --- unary answers that are lists: sent piece by piece when they are long --- */

/* Before an element is appended to c->out: adds `head` before the first, else a comma. */
bool envd_rpc_item(struct envd_call *c, const char *head);
/* After it, with the writer's result. False: the call is over. */
bool envd_rpc_item_done(struct envd_call *c, int result);
void envd_rpc_list_end(struct envd_call *c, const char *head, const char *tail);

/* For writers' results: 0 or more goes on (true), less ends the call with internal. */
bool envd_rpc_wrote(struct envd_call *c, int result);

#endif
