/* Contexts: each has a kernel, and cells that wait for it.
 *
 *	COLD      no kernel; the next execution starts one. Lazy kernels before their first cell,
 *		  and kernels that could not be started
 *	STARTING  the kernel is not ready yet; executions wait
 *	IDLE      nothing runs
 *	RUNNING   `current` runs, others wait. If its client has gone, it is interrupted again and
 *		  again. If it ignores that for CONTEXT_PATIENCE_S while others wait, its kernel
 *		  is killed
 *
 * A kernel that ends is started again, up to CONTEXT_STARTS_MAX times without becoming ready. Its
 * state is lost, and the execution is told. An execution that the kernel had not begun runs in the
 * new one instead. A kernel that says nothing at all about a cell is killed.
 *
 * Before a cell, the kernel gets what has changed outside since the previous one. That is: the
 * sandbox's variables and new seeds after a restore or fork (sandbox_env.h), and the variables of
 * this run, which are taken back after it. */
#ifndef INTERPRETER_CONTEXT_H
#define INTERPRETER_CONTEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/str.h"
#include "interpreter/execution.h"
#include "interpreter/kernel.h"

enum {
	CONTEXTS_MAX = 100,
	CONTEXT_QUEUE_MAX = 100,
	CONTEXT_STARTS_MAX = 3,
	CONTEXT_PATIENCE_S = 20,
	CONTEXT_IDLE_GRACE_MS = 30000, /* from a reply to the idle status that should follow */
	CONTEXT_REPLY_GRACE_MS = 5000, /* from an idle status to the reply that should precede it */
	CONTEXT_ID_BYTES = STR_UUID_BYTES,
};

enum context_state { CONTEXT_COLD, CONTEXT_STARTING, CONTEXT_IDLE, CONTEXT_RUNNING };

/* What all contexts share. */
struct contexts {
	uv_loop_t *loop;
	struct kernel_host *host;
	struct specs specs;
	struct sandbox_env env;
	const char *cwd; /* for contexts that name none */
	struct context *first;
	unsigned count;
};

struct context {
	struct contexts *all;
	struct context *next;
	char id[CONTEXT_ID_BYTES];
	char language[SPEC_LANGUAGE_MAX];
	char *cwd; /* owned */
	bool is_default;
	const struct spec *spec;
	enum context_state state;
	struct kernel *kernel; /* NULL when COLD */
	struct execution *current, *waiting;
	char barrier[MESSAGE_ID_BYTES]; /* the request that ends late output, or "" */
	json_int_t count;		/* of executions, as the kernel counts */
	uint64_t generation;		/* of the environment that the kernel has */
	unsigned failed_starts;		/* in a row */
	unsigned interrupted_s;		/* since the client of `current` went */
	uv_timer_t timer;		/* for interrupts, and to wait for reply or idle */
	struct exchange *starter;	/* answered when the kernel is ready, or NULL */
	bool starter_wants_json;	/* for a creation; else a restart */
};

/* Makes a context and starts its kernel, unless that is lazy. NULL with e filled: ERROR_NOT_FOUND
 * (no such language), ERROR_USAGE (cwd), ERROR_LIMIT. */
struct context *context_new(struct contexts *all, const char *language, const char *cwd,
	bool is_default, struct error *e);

struct context *context_find(struct contexts *all, const char *id);
/* Returns the default context of a language; makes it if there is none. */
struct context *context_default(struct contexts *all, const char *language, struct error *e);

/* Ends the kernel and everything that runs or waits in the context. */
void context_remove(struct context *c);
void context_restart(struct context *c);

/* Answers the exchange when the kernel is ready: with the context (is_creation) or with null. */
void context_answer_when_ready(struct context *c, struct exchange *exchange, bool is_creation);

/* Queues a cell. The exchange is always answered. */
void context_execute(
	struct context *c, struct exchange *exchange, const char *code, size_t n, json_t *env);

/* Returns a new {"id","language","cwd"}; NULL: out of memory. */
json_t *context_json(const struct context *c);

#endif
