/* One run of a cell: the client's request, and the lines that go back to it.
 *
 * The context that it runs in owns it. It owns the exchange from execution_new until execution_end.
 * When the client goes, `gone` is called and nothing more is written.
 *
 * Limits: a message or text of more than EXECUTION_RESULT_MAX bytes becomes an error line. The
 * queue to the client holds about SERVER_FULL bytes and one line. When it is full, ops->full is
 * called, and the context takes nothing more from its kernel until ops->drained. */
#ifndef INTERPRETER_EXECUTION_H
#define INTERPRETER_EXECUTION_H

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "interpreter/message.h"
#include "interpreter/server.h"

enum { EXECUTION_RESULT_MAX = 64 << 20, EXECUTION_KEEPALIVE_S = 5 };

struct execution;

struct execution_ops {
	void (*full)(struct execution *x);
	void (*drained)(struct execution *x);
	void (*gone)(
		struct execution *x); /* the client went; execution_free must still be called */
};

struct execution {
	struct execution *next; /* in the context's queue */
	void *owner;		/* the context */
	const struct execution_ops *ops;
	struct exchange *exchange; /* NULL: the client has gone */
	uv_timer_t keepalive;
	char *code; /* owned */
	size_t code_bytes;
	json_t *env;		   /* owned; an object of strings, or NULL */
	char id[MESSAGE_ID_BYTES]; /* of the request, once the cell runs */
	bool counted, failed;	   /* the lines number_of_executions and error were written */
	bool heard;		   /* the kernel has said something about it */
	bool taken_back;	   /* from a kernel that ended before it began the cell */
	bool idle, replied;	   /* both must come, in any order, to end the cell */
	json_t *reply;		   /* content of an execute_reply that reports an error; owned */
};

/* Takes the exchange and sends the head of the answer. code is copied, env referenced. NULL: out of
 * memory, and the exchange stays the caller's. */
struct execution *execution_new(uv_loop_t *loop, struct exchange *exchange, const char *code,
	size_t n, json_t *env, const struct execution_ops *ops, void *owner);

/* Handles a message of the kernel for this execution: writes what the client should see.
 * `next_count` is for kernels that print before they report the count. */
void execution_message(
	struct execution *x, const struct message *m, const json_t *content, json_int_t next_count);

/* Writes an error line, unless there was one. */
void execution_fail(struct execution *x, const char *name, const char *value);

bool execution_is_full(const struct execution *x);

/* Writes the last line, ends the answer and frees x. */
void execution_end(struct execution *x);

#endif
