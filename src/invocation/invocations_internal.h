/* One invocation, as the queue (invocations.c) and its run (run.c) see it. */
#ifndef INVOCATION_INVOCATIONS_INTERNAL_H
#define INVOCATION_INVOCATIONS_INTERNAL_H

#include <uv.h>

#include "base/buf.h"
#include "invocation/invocations.h"
#include "invocation/program.h"
#include "invocation/web.h"
#include "lifecycle/instance_obtain.h"

enum invocation_state { INVOCATION_QUEUED, INVOCATION_MAKING, INVOCATION_RUNNING, INVOCATION_OVER };

struct invocations {
	struct fleet *fleet;
	struct invocation *first, **last; /* all, in order of arrival */
	struct invocation *running;	  /* those whose turn it is, until they have let go */
	uv_timer_t again;		  /* asks whether those that wait may go */
	unsigned waiting;
	bool stopping;
};

struct invocation {
	struct invocations *all;
	struct invocation *next, *next_running;
	enum invocation_state state;
	struct invocation_order order;
	const struct invocation_ops *ops; /* NULL: nobody waits any more */
	void *arg;
	char id[STORE_INVOCATION_ID_BYTES];
	char sandbox_id[SANDBOX_ID_BYTES];
	struct instance_maker *maker;
	struct obtaining *obtaining;
	struct program *program;
	struct web *web;
	uv_timer_t timer;  /* of the queue, then of the run; then `ended` is called */
	uint64_t begin_ns; /* CLOCK_MONOTONIC when its program was asked */
	uint64_t activity; /* the sandbox's newest record when it began */
	uint64_t memory_bytes;
	struct buf errors, kept; /* kept: the beginning of the answer, if it is async */
	uint64_t printed;
	const char *broken;  /* what was wrong with the answer of a program that listens; static */
	unsigned web_status; /* of the answer of a program that listens */
	bool paused;
	struct error why;	/* why it waits: the last refusal */
	struct outcome outcome; /* when OVER */
};

/* invocations.c: the callbacks and the row follow in a later turn; then it is gone. */
void invocation_over(struct invocation *v, const struct outcome *o);
/* It waits (again) because of that. */
void invocation_wait(struct invocation *v, const struct error *why);

/* run.c: its turn has come. */
void invocation_start(struct invocation *v);
/* Its sandbox is not wanted any more: run.c hears nothing of it from now on. */
void invocation_stop_making(struct invocation *v);
/* Lets go of everything in its sandbox, and of that. */
void invocation_let_go(struct invocation *v);

#endif
