/* What the parts of instance_make share. */
#ifndef FLEET_INSTANCE_MAKE_INTERNAL_H
#define FLEET_INSTANCE_MAKE_INTERNAL_H

#include <stdatomic.h>

#include "fleet/instance_make.h"
#include "sandbox/identity.h"

struct instance_maker {
	struct instance *instance;
	struct instance_order order; /* borrows from `template` and the references below */
	char *template;
	json_t *metadata, *env, *network;
	struct sandbox_origin origin; /* fd is ours; -1: the template */
	bool resumed;		      /* its row is there already */
	bool booting;		      /* the agent is not there yet: asked again and again */
	bool held;		      /* `made` was told; for instances_admit() */
	uint64_t created_ns;	      /* CLOCK_REALTIME */
	uint64_t begin_ns;	      /* CLOCK_MONOTONIC */
	instance_made made;	      /* NULL: cancelled */
	void *arg;
	bool hello_done;
	struct identity identity;
	uv_timer_t limit; /* of a boot: every BOOT_STEP_MS; of waiting for a word: WORD_STEP_MS */
	unsigned word_steps;
	int result;	       /* of the worker */
	bool boots;	       /* its worker is a job of the lane of boots */
	atomic_bool cancelled; /* for that worker */
	struct error why;
};

/* instance_make.c: it failed, or its agent has its identity. Nothing of the maker is left then, or
 * it is held. */
void instance_make_give_up(struct instance_maker *m, const struct error *why);
void instance_make_ready(struct instance_maker *m);

/* instance_make_agent.c: HELLO and IDENTITY are queued; then, until the answer, time is limited. */
int instance_make_speak(struct instance *i, struct error *e);
void instance_make_await(struct instance_maker *m);

/* instance_make_sizes.c: before anything is made, the sizes, which the order names from then on, and
 * a place on the host. */
int instance_make_take_place(struct instance *i, struct instance_order *o, struct error *e);
/* Whether no snapshot of the template has these sizes; and whether its boot may begin. */
bool instance_make_must_boot(const struct fleet *f, const struct instance_order *o);
int instance_make_check_boot(struct fleet *f, const struct instance_order *o, struct error *e);

/* instance_make_rows.c: the rows of those that are ready, all or none. */
int instance_make_write_rows(
	struct fleet *f, struct instance *const *held, size_t count, struct error *e);
char *instance_make_dump(const json_t *object); /* NULL for NULL */

#endif
