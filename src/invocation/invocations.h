/* Invocations of hosted agents. An invocation gets a sandbox of the agent's version, gives the
 * prompt to its program there, and passes the answer to the owner.
 *
 *	QUEUED   it waits for a place of its agent and of its key, and for its session
 *	MAKING   its sandbox is being made or resumed
 *	RUNNING  its sandbox runs; its program is being started, or has the prompt
 *	OVER     its outcome is known; `ended` follows, unless the owner cancelled
 *
 * Each invocation has a row (store/invocations.h) from the start. Its sandbox ends with it, unless
 * it belongs to a session. The sandbox of a session stays for the next invocation, and is paused
 * while it is idle. It is found by its metadata, and belongs to one version of the agent. After
 * kill -9 the next daemon ends the sandboxes that are left (instance_order.transient), and marks
 * unfinished invocations as interrupted. All functions belong to the loop's thread. */
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
#define SESSION_BUILD "mayfly-build" /* the buildID of the version */
#define SESSION_NAME  "mayfly-session"

enum {
	INVOCATIONS_AGENT_MAX = 64,	      /* at the same time, of an agent that names none */
	INVOCATIONS_QUEUE_KEY_MAX = 256,      /* waiting ones of a key */
	INVOCATIONS_QUEUE_MAX = 4096,	      /* waiting ones of all keys */
	INVOCATIONS_INPUT_KEY_MAX = 32 << 20, /* bytes of a key's requests that are not over */
	INVOCATIONS_INPUT_MAX = 64 << 20,     /* the same of all keys */
	INVOCATION_QUEUE_S = 30,	      /* unless the client says otherwise */
	INVOCATION_QUEUE_MAX_S = 3600,
	INVOCATION_GRACE_S = 60, /* from the invocation's time limit to its sandbox's deadline */
	INVOCATION_IDLE_S = 300, /* after that an idle session is paused */
};

/* All pointers are borrowed and must be valid until `release`. */
struct invocation_order {
	const struct instance_order *sandbox; /* the invocation sets its deadline */
	bool unlimited;			      /* it is the operator's: places are not counted */
	bool async;
	const char *key_id, *agent_id, *agent;
	uint32_t version;
	const char *build_id; /* of the version */
	const char *session;  /* or NULL */
	uint64_t timeout_ns, queue_ns, idle_ns;
	unsigned concurrency; /* at the same time, of the agent; 0: INVOCATIONS_AGENT_MAX */
	const char *command, *dir, *user;
	struct agent_strings env; /* variables of this invocation */
	bool fresh;		  /* start a new program, even if one waits already */
	uint16_t port;		  /* the program listens there; 0: it reads standard input */
	const char *content_type; /* of the input, if port is set */
	const void *input;
	size_t input_bytes;
	size_t bytes; /* that the request counts with; at least input_bytes */
	/* Called once, after the last callback. */
	void (*release)(void *owner);
	void *owner;
};

struct invocation_end {
	struct outcome outcome;
	uint64_t duration_ns; /* since the program got its input; 0: it never did */
	uint64_t printed;     /* bytes of the answer */
	const char *errors;   /* the last bytes of standard error; may be "" */
	size_t errors_bytes;
	unsigned again_s; /* the client may try again after that; 0: no advice */
};

struct invocation_ops {
	/* The answer's type, of a program that listens. May be NULL. */
	void (*typed)(void *arg, const char *content_type);
	/* Bytes of the answer, or of standard error. Return false to get no more until
	 * invocation_resume(). */
	bool (*output)(void *arg, bool errors, const uint8_t *data, size_t n);
	void (*ended)(void *arg, const struct invocation_end *end);
};

int invocations_start(struct fleet *f, struct error *e);
/* Ends all invocations as interrupted and calls `ended`. */
void invocations_stop(struct fleet *f);
void invocations_free(struct fleet *f); /* after the loop has ended */

/* Queues an invocation. Callbacks come in later turns of the loop only. Fails with ERROR_TOO_MANY
 * if its key, or all keys together, have too many waiting invocations or too many bytes. On failure
 * nothing is called, not even `release`. */
int invocation_begin(struct fleet *f, const struct invocation_order *o,
	const struct invocation_ops *ops, void *arg, struct invocation **ret, struct error *e);
const char *invocation_id(const struct invocation *v);
const char *invocation_sandbox(const struct invocation *v); /* "" until it has one */
void invocation_resume(struct invocation *v);
/* Of an agent that was removed: ends invocations that wait, and the sandboxes of sessions. What
 * runs goes on to its end, and the sandbox of its session ends with it. agent: its name. */
void invocations_end_agent(
	struct fleet *f, const char *key_id, const char *agent_id, const char *agent);
/* Ends an invocation that nobody waits for any more. NULL is fine. */
void invocation_cancel(struct invocation *v);

#endif
