/* Invocations of hosted agents (docs/agents.md): those that wait, run, and are over, with what is
 * kept of their output.
 *
 * What is kept is bounded: of one, in rows and bytes of a key, and in bytes of all. Beyond a bound
 * the oldest that are over go, and all STORE_INVOCATION_DAYS after their end. A row counts
 * STORE_INVOCATION_OVERHEAD bytes more than its output. */
#ifndef STORE_INVOCATIONS_H
#define STORE_INVOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

enum {
	STORE_INVOCATION_ID_BYTES = sizeof("inv_") + 20, /* "inv_" and 20 of a-z 0-9, NUL */
	STORE_INVOCATION_OUTPUT_MAX = 1 << 20,		 /* kept of the answer of one */
	STORE_INVOCATION_ERRORS_MAX = 64 << 10,		 /* and of the end of its standard error */
	STORE_INVOCATION_CODE_MAX = 32,
	STORE_INVOCATION_MESSAGE_MAX = 1024,
	STORE_INVOCATION_SESSION_MAX = 128,
	STORE_INVOCATION_OVERHEAD = 512,
	STORE_INVOCATIONS_KEY_MAX = 10000,
	STORE_INVOCATIONS_KEY_BYTES = 32 << 20,
	STORE_INVOCATIONS_ALL_BYTES = 512 << 20,
	STORE_INVOCATIONS_LIST_MAX = 100,
	STORE_INVOCATIONS_SCAN_MAX = 500,
	STORE_INVOCATION_DAYS = 7,
};

enum store_invocation_state {
	STORE_INVOCATION_QUEUED,
	STORE_INVOCATION_RUNNING,
	STORE_INVOCATION_OVER,
	STORE_INVOCATION_STATES_,
};

/* "queued", "running", "finished". */
const char *store_invocation_state_name(enum store_invocation_state state);

struct store_invocation {
	uint64_t seq; /* given by the store; grows */
	const char *id;
	const char *key_id;
	const char *agent_id, *agent; /* and the agent's name */
	uint32_t version;
	const char *session; /* or NULL */
	bool async;
	enum store_invocation_state state;
	const char *sandbox_id; /* NULL: it never had one */
	uint64_t asked_ns;
	uint64_t started_ns; /* 0: never */
	uint64_t ended_ns;   /* 0: not yet */
	/* The next ones only when it is over. */
	const char *code;		      /* "ok", or what went wrong */
	const char *message;		      /* what to do about that, or NULL */
	int64_t status;			      /* the program's exit status; -1: it has none */
	uint64_t printed;		      /* bytes of its answer */
	bool metered;			      /* the next three are known */
	uint64_t cpu_us, in_bytes, out_bytes; /* CPU time; bytes from servers and to them */
	const void *output;		      /* the beginning of it, or NULL: it was not kept */
	size_t output_bytes;
	const void *errors; /* the end of its standard error, or NULL */
	size_t errors_bytes;
};

/* Enters one that waits: id to async and asked_ns count. */
int store_invocation_add(struct store *s, const struct store_invocation *v, struct error *e);
/* It runs, in that sandbox. */
int store_invocation_run(
	struct store *s, const char *id, const char *sandbox_id, uint64_t at_ns, struct error *e);
/* It is over: ended_ns and what follows count. Makes room within the bounds. */
int store_invocation_finish(struct store *s, const struct store_invocation *v, struct error *e);
/* Those that are not over got lost with their daemon. */
int store_invocation_fail_open(struct store *s, uint64_t at_ns, const char *code,
	const char *message, unsigned *ret_count, struct error *e);

/* key_id: whose it must be; NULL: anybody's. Calls `each` and returns its value; -ENOENT. */
int store_invocation_get(struct store *s, const char *id, const char *key_id,
	int (*each)(void *arg, const struct store_invocation *v), void *arg, struct error *e);

struct store_invocation_filter {
	const char *key_id; /* whose; NULL: of all keys */
	const char *agent_id;
	bool ascending;	 /* oldest first */
	uint64_t cursor; /* those beyond this seq; 0: from the end that `ascending` says */
	uint32_t limit;	 /* 1-STORE_INVOCATIONS_SCAN_MAX */
};

/* Until `each` returns anything but 0, which is returned. */
int store_invocation_list(struct store *s, const struct store_invocation_filter *f,
	int (*each)(void *arg, const struct store_invocation *v), void *arg, struct error *e);

#endif
