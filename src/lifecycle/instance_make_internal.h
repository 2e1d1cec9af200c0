/* State and functions that the parts of instance_make share. */
#ifndef LIFECYCLE_INSTANCE_MAKE_INTERNAL_H
#define LIFECYCLE_INSTANCE_MAKE_INTERNAL_H

#include <stdatomic.h>

#include "lifecycle/instance_make.h"
#include "sandbox/identity.h"

struct instance_maker {
	struct instance *instance;
	struct instance_order order; /* borrows from `template` and the references below */
	char *template, *alias;	     /* owned; alias may be NULL */
	json_t *metadata, *env, *network;
	struct sandbox_origin origin; /* fd is ours; -1: the template */
	bool resumed;		      /* its row exists already */
	bool booting;		      /* the agent may not listen yet: the maker asks again and
				       * again */
	bool held;		      /* `made` was called; instances_admit() comes next */
	uint64_t created_ns;	      /* CLOCK_REALTIME */
	uint64_t begin_ns;	      /* CLOCK_MONOTONIC */
	instance_made made;	      /* NULL: cancelled */
	void *arg;
	bool hello_done;
	struct identity identity;
	uv_timer_t limit; /* while booting it fires every BOOT_STEP_MS; while waiting for a lost
			   * microVM's last message every WORD_STEP_MS */
	unsigned word_steps;
	int result;	       /* the worker's */
	bool boots;	       /* its worker is a job of the `boots` lane */
	atomic_bool cancelled; /* read by that worker */
	struct error why;
};

/* instance_make.c: the sandbox failed, or its agent has its identity. On return the maker is gone,
 * or it is held. */
void instance_make_give_up(struct instance_maker *m, const struct error *why);
void instance_make_ready(struct instance_maker *m);

/* instance_make_agent.c: gives up because the microVM could not be reached. Reports the reason that
 * the microVM itself gives, if it comes in time. On return the maker may be gone. */
void instance_make_give_up_lost(struct instance_maker *m, const struct error *why);

/* instance_make_agent.c: instance_make_speak queues HELLO and IDENTITY; instance_make_await limits
 * the time until the answer. */
int instance_make_speak(struct instance *i, struct error *e);
void instance_make_await(struct instance_maker *m);

/* instance_make_sizes.c: before anything is made, determines the sizes, stores them in the order,
 * and takes a place on the host. */
int instance_make_take_place(struct instance *i, struct instance_order *o, struct error *e);
/* Whether no snapshot of the template has these sizes; whether its boot may begin. */
bool instance_make_must_boot(const struct fleet *f, const struct instance_order *o);
int instance_make_check_boot(struct fleet *f, const struct instance_order *o, struct error *e);

/* instance_make_rows.c: writes the rows of ready instances, all or none. */
int instance_make_write_rows(struct fleet *f, struct instance *const *held, size_t count,
	instances_also also, void *arg, struct error *e);
char *instance_make_dump(const json_t *object); /* NULL for NULL */

#endif
