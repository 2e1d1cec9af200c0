/* Connect RPCs of envd. Converts an HTTP request to a method with its JSON, and answers in one of
 * two forms, unary or streamed. */
#ifndef ENVD_RPC_H
#define ENVD_RPC_H

#include <jansson.h>

#include "envd/envd_call.h"

struct envd_method {
	const char *path; /* "/process.Process/Start" */
	enum connect_kind kind;
	/* Asks the agent, or answers. Returns 0, or -errno with *e filled. o is freed when it
	 * returns. */
	int (*begin)(struct envd_call *c, const json_t *o, struct envd_error *e);
	/* ops->fail must be envd_rpc_fail. */
	const struct envd_ops *ops;
	/* Takes the streamed body itself, instead of begin. NULL except for client streams. */
	void (*open)(struct envd_call *c);
	size_t body_max; /* for the request's message; 0: ENVD_BODY_MAX */
};

/* Room for the longest command line and environment, written as JSON. */
enum { ENVD_BODY_MAX = 1024 * 1024 };

/* Finds a method by path, or returns NULL. */
const struct envd_method *envd_rpc_find(const char *path);

extern const struct envd_method envd_process_methods[];	   /* path NULL ends it */
extern const struct envd_method envd_filesystem_methods[]; /* likewise */

/* Serves an authorised request on an RPC's path. */
void envd_rpc_dispatch(struct request *r, const struct instance *i, const struct envd_method *m);

/* --- answers; each ends the call --- */

/* Answers with an error in the form of the method's kind, even within a stream. If the sandbox
 * cannot be reached, it gives the proxy's answer while nothing was sent. Within a stream it then
 * cuts the connection, without the envelope that ends a stream. So the SDKs ask whether the sandbox
 * still exists. */
void envd_rpc_fail(struct envd_call *c, const struct envd_error *e);
/* Sends the unary answer in c->out. */
void envd_rpc_reply(struct envd_call *c);
void envd_rpc_reply_text(struct envd_call *c, const char *json);

/* --- streams: c->out holds whole envelopes --- */

/* Begins the answer and sends c->out. Returns false if the client has gone. */
bool envd_rpc_stream(struct envd_call *c);
/* Adds the envelope that ends a stream without an error, sends everything, and ends. */
void envd_rpc_end(struct envd_call *c);

/* --- unary answers that are lists: long ones are sent in pieces --- */

/* Call it before appending an element to c->out. It adds `head` before the first, else a comma. */
bool envd_rpc_item(struct envd_call *c, const char *head);
/* Call it after an element, with the writer's result. False: the call is over. */
bool envd_rpc_item_done(struct envd_call *c, int result);
void envd_rpc_list_end(struct envd_call *c, const char *head, const char *tail);

/* Checks a writer's result. Returns true for 0 or more; otherwise ends the call with `internal`. */
bool envd_rpc_wrote(struct envd_call *c, int result);

#endif
