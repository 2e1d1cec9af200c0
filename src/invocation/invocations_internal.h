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
	struct invocation *first, **last; /* all of them, in the order of arrival */
	struct invocation *running;	  /* list of those that are MAKING or RUNNING, or still hold
					   * their sandbox */
	uv_timer_t again;		  /* looks whether waiting ones may start */
	unsigned waiting;
	bool stopping;
};

struct invocation {
	struct invocations *all;
	struct invocation *next, *next_running;
	enum invocation_state state;
	struct invocation_order order;
	const struct invocation_ops *ops; /* NULL after a cancel */
	void *arg;
	char id[STORE_INVOCATION_ID_BYTES];
	char sandbox_id[SANDBOX_ID_BYTES];
	struct instance_maker *maker;
	struct obtaining *obtaining;
	struct program *program;
	struct web *web;
	uv_timer_t timer;    /* limits the wait, then the run; when OVER it calls `ended` */
	uint64_t begin_ns;   /* CLOCK_MONOTONIC when the program got its input */
	uint64_t started_ns; /* the same, CLOCK_REALTIME */
	uint64_t activity;   /* number of the sandbox's newest record at that time */
	uint64_t memory_bytes;
	struct instance_meter before; /* what a session's sandbox had used before */
	struct buf errors, kept;      /* kept: the first bytes of the answer, if async */
	uint64_t printed;
	const char *broken;  /* what is wrong with the answer of a program that listens; static */
	unsigned web_status; /* of the answer of a program that listens */
	bool paused;
	bool late;		/* its time limit ended it: its program may still run */
	struct error why;	/* the last refusal: why it waits */
	struct outcome outcome; /* when OVER */
};

/* invocations.c: sets the outcome. The callbacks and the row follow in a later turn, which also
 * frees v. */
void invocation_over(struct invocation *v, const struct outcome *o);
/* Puts it back into the queue; why says what it waits for. */
void invocation_wait(struct invocation *v, const struct error *why);

/* session.c: finds the sandbox of its session, "" if there is none. Ends those of the session that
 * belong to other versions. */
int invocation_find_session(
	const struct invocation *v, char ret[SANDBOX_ID_BYTES], struct error *e);
/* Whether its agent was not removed meanwhile. */
bool invocation_has_agent(const struct invocation *v);

/* run.c: starts an invocation whose turn has come. */
void invocation_start(struct invocation *v);
/* Cancels the making of its sandbox. run.c gets no callback of it any more. */
void invocation_stop_making(struct invocation *v);
/* Closes its program, and releases or ends its sandbox. */
void invocation_let_go(struct invocation *v);

#endif
