/* Making a sandbox without making the loop wait: a new one, a paused one that comes back, or one of
 * a snapshot. */
#ifndef FLEET_INSTANCE_MAKE_H
#define FLEET_INSTANCE_MAKE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "fleet/instance.h"
#include "store/creations.h"
#include "store/sandboxes.h"

/* Of E2B's envd, as clients are told. */
#define INSTANCE_ENVD_VERSION "0.6.13"

enum {
	INSTANCE_READY_S = 60,	    /* from the microVM's start to its agent's answer */
	INSTANCE_TOKEN_BYTES = 41,  /* 20 random bytes in hexadecimal, NUL */
	INSTANCES_MAKING_MAX = 256, /* at the same time */
};

struct instance_places;

struct instance_order {
	/* Paused: its row. The sandbox comes back with its id, tokens and the rest of it; of this
	 * order only timeout_ns, origin, auto_pause, auto_pause_memory and auto_resume count besides. NULL:
	 * a new one. */
	const struct store_sandbox *paused;
	/* What it is made of, if not the template; the directory's descriptor is borrowed until the
	 * return. */
	const struct sandbox_origin *origin;
	/* `made` is told when it is ready, but it is not there yet for anybody else:
	 * instances_admit() or instance_drop() comes next. */
	bool hold;
	/* Only to be looked at, with `hold` and an origin with memory: its processes are stopped as
	 * soon as it runs, nothing in it is changed, it is in no list and is not counted as made.
	 */
	bool look;
	/* Of an origin: it takes one of these when instances_make() succeeds. NULL: a new one. */
	struct instance_places *places;
	const char *key_id;
	const char *template;
	const char *template_id, *build_id; /* of an origin; build_id may be NULL */
	const char *snapshot_id;	    /* of an origin that is kept, else NULL */
	unsigned cpus;			    /* 0: the template's, as the next two */
	uint64_t memory_bytes, disk_bytes;
	struct sandbox_sizes max; /* of what the template or snapshot has, too */
	uint64_t timeout_ns;
	bool secure, auto_pause, auto_pause_memory, auto_resume;
	/* Noted in the commit that makes the sandbox's row; word "": nothing. Of a new one. */
	struct store_creation once;
	bool transient;	  /* it belongs to a request: recovery ends it */
	json_t *metadata; /* objects of strings, borrowed, or NULL */
	json_t *env;
	json_t *network; /* object or NULL */
	bool public_traffic;
};

/* Called once, from the loop: the instance is RUNNING and in the store, or NULL and why. */
typedef void (*instance_made)(void *arg, struct instance *i, const struct error *why);

/* Puts those that were held into the store and among the running ones, all or none. On failure they
 * are as before. */
int instances_admit(struct fleet *f, struct instance *const *held, size_t count, struct error *e);
/* Ends one that was held. */
void instance_drop(struct instance *i);

/* Starts making one. -errno and e when it cannot be started; then `made` is not called. */
int instances_make(struct fleet *f, const struct instance_order *o, instance_made made, void *arg,
	struct instance_maker **ret, struct error *e);
/* Nobody waits any more: it is ended as soon as it can be; `made` is not called. */
void instance_maker_cancel(struct instance_maker *m);
/* The daemon stops: the same, and what is held is ended. */
void instance_maker_stop(struct instance_maker *m);
/* Of an agent's answer to what version 2 of its protocol brought: says so where it does not know
 * it, else as agent_event_error(). */
int instance_agent_refusal(const struct agent_event *ev, struct error *e);

#endif
