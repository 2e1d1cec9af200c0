/* Invocations of hosted agents: a fresh sandbox of the agent's version, its program, the prompt,
 * the answer, the end.
 *
 *	QUEUED   waits for its turn: a place of the agent and of the key, and its session
 *	MAKING   its sandbox is being made, or comes back
 *	RUNNING  its program has the prompt, or will have it
 *	OVER     `ended` was called, or invocation_cancel()
 *
 * Each has a row (store/invocations.h) from its beginning. A sandbox ends with its invocation; that
 * of a session stays, is paused when it is idle, and comes back for the next one. It has the
 * metadata SESSION_AGENT and SESSION_NAME, by which it is found. Sandboxes that a killed daemon
 * leaves are ended by the next one (instance_order.transient), and rows that are not over fail. For
 * the loop's thread. */
#ifndef INVOCATION_INVOCATIONS_H
#define INVOCATION_INVOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "invocation/outcome.h"
#include "lifecycle/instance_make.h"
#include "store/invocations.h"

struct fleet;
struct invocation;

#define SESSION_AGENT "mayfly-agent"
#define SESSION_NAME  "mayfly-session"

enum {
	INVOCATIONS_AGENT_MAX = 64,	      /* of an agent at the same time */
	INVOCATIONS_QUEUE_KEY_MAX = 256,      /* of a key that wait */
	INVOCATIONS_QUEUE_MAX = 4096,	      /* in all */
	INVOCATIONS_INPUT_KEY_MAX = 32 << 20, /* bytes of requests of a key that are not over */
	INVOCATIONS_INPUT_MAX = 64 << 20,     /* in all */
	INVOCATION_QUEUE_S = 30,	      /* unless the client says otherwise */
	INVOCATION_QUEUE_MAX_S = 3600,
	INVOCATION_GRACE_S = 60, /* from its limit to its sandbox's deadline */
	INVOCATION_IDLE_S = 300, /* until a session is paused */
};

/* All pointers are the owner's, and valid until `release`. */
struct invocation_order {
	const struct instance_order *sandbox; /* its deadline is set here */
	bool unlimited;			      /* the operator's: places are not counted */
	bool async;
	const char *key_id, *agent_id, *agent;
	uint32_t version;
	const char *session; /* or NULL */
	uint64_t timeout_ns, queue_ns, idle_ns;
	unsigned concurrency; /* of the agent; 0: INVOCATIONS_AGENT_MAX */
	const char *command, *dir, *user;
	struct agent_strings env; /* its own variables */
	bool fresh;		  /* no program of the snapshot or of the session will do */
	uint16_t port;		  /* the program listens there; 0: it reads its input */
	const char *content_type; /* of the input, for that */
	const void *input;
	size_t input_bytes;
	size_t bytes; /* of the request, that count: at least input_bytes */
	/* Called once, after the last callback. */
	void (*release)(void *owner);
	void *owner;
};

struct invocation_end {
	struct outcome outcome;
	uint64_t duration_ns; /* since its program was asked; 0: never */
	uint64_t printed;     /* bytes of its answer */
	const char *errors;   /* the end of its standard error; "" */
	size_t errors_bytes;
	unsigned again_s; /* when to try again; 0: never mind */
};

struct invocation_ops {
	/* A program that listens answers with this type. May be NULL. */
	void (*typed)(void *arg, const char *content_type);
	/* False: no more until invocation_resume(). */
	bool (*output)(void *arg, bool errors, const uint8_t *data, size_t n);
	void (*ended)(void *arg, const struct invocation_end *end);
};

int invocations_start(struct fleet *f, struct error *e);
/* Those that are not over end as interrupted; their owners are told. */
void invocations_stop(struct fleet *f);
void invocations_free(struct fleet *f); /* after the loop has ended */

/* Enters one. On failure nothing is called, and the order stays the caller's: ERROR_TOO_MANY when
 * its key, or all keys, have too many that wait or too many bytes. On success it calls back later
 * only. */
int invocation_begin(struct fleet *f, const struct invocation_order *o,
	const struct invocation_ops *ops, void *arg, struct invocation **ret, struct error *e);
const char *invocation_id(const struct invocation *v);
const char *invocation_sandbox(const struct invocation *v); /* "": none yet */
void invocation_resume(struct invocation *v);
/* Nobody waits for it any more: it ends. NULL is fine. */
void invocation_cancel(struct invocation *v);

#endif
