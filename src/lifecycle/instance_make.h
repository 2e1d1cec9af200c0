/* Makes a sandbox without blocking the loop: a new one, one from a snapshot, or a paused one that
 * is resumed. */
#ifndef LIFECYCLE_INSTANCE_MAKE_H
#define LIFECYCLE_INSTANCE_MAKE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "fleet/instance.h"
#include "store/creations.h"
#include "store/sandboxes.h"

/* The version of E2B's envd that clients are told. */
#define INSTANCE_ENVD_VERSION "0.6.13"

enum {
	INSTANCE_READY_S = 60,	    /* from the microVM's start to its agent's answer */
	INSTANCE_TOKEN_BYTES = 41,  /* 20 random bytes in hexadecimal, NUL */
	INSTANCES_MAKING_MAX = 256, /* at the same time */
};

struct instance_places;

struct instance_order {
	/* The row of a paused sandbox, or NULL for a new one. A paused sandbox comes back with its
	 * id, its tokens and the rest of its row. Of this order, only these fields count besides:
	 * timeout_ns, origin, auto_pause, auto_pause_memory and auto_resume. */
	const struct store_sandbox *paused;
	/* What it is made of, if not the template. The directory's descriptor is borrowed until the
	 * return. */
	const struct sandbox_origin *origin;
	/* `made` is called when the sandbox is ready, but nobody else can see it yet.
	 * instance_admit() or instance_drop() must follow. */
	bool hold;
	/* Only for inspection; needs `hold` and an origin with memory. Its processes are stopped as
	 * soon as it runs, and nothing in it is changed. It is in no list and not counted as
	 * made. */
	bool look;
	/* Only with an origin: the order takes one of these places when instances_make() succeeds.
	 * NULL: it takes a new place. */
	struct instance_places *places;
	const char *key_id;
	const char *template;
	const char *alias;		    /* the name that clients use; NULL: `template` */
	const char *template_id, *build_id; /* with an origin; build_id may be NULL */
	const char *snapshot_id;	    /* with an origin that is kept and has memory,
					     * else NULL */
	const char *shown_id;		    /* of a snapshot that clients see as the template;
					     * or NULL */
	unsigned cpus;			    /* 0: the template's; the same for the next two */
	uint64_t memory_bytes, disk_bytes;
	struct sandbox_sizes max; /* limits that also hold for the template's or snapshot's own
				   * sizes */
	uint64_t timeout_ns;
	bool secure, auto_pause, auto_pause_memory, auto_resume;
	/* For a new sandbox: recorded in the commit that writes its row. Empty word: nothing. */
	struct store_creation once;
	bool transient;	  /* it belongs to a request; recovery ends it */
	json_t *metadata; /* object of strings, borrowed, or NULL; the same for env */
	json_t *env;
	json_t *network; /* object or NULL; network_check.h accepted it */
	enum store_internet internet;
	uint64_t network_generation;	/* 0: 1 */
	const char *network_names_json; /* or NULL */
	bool public_traffic;
	/* Which variables in env hold placeholders of which secrets: an object as secrets_json of
	 * store/sandboxes.h, or NULL. */
	json_t *secrets;
	json_t *files_outside; /* array of directories (network/reports.h), or NULL */
	const json_t *iam;     /* as iam_take() gives it, or NULL */
	const char *authority; /* certificate authority of the sandbox that it is a copy of, or
			        * NULL */
};

/* Called once, from the loop, with the RUNNING instance that is in the store, or with NULL and
 * why. */
typedef void (*instance_made)(void *arg, struct instance *i, const struct error *why);

/* Writes rows for held instances and makes them running ones: all or none. On failure they stay
 * held. `also` (NULL: nothing) writes more in the same commit; its failure is the whole's. */
typedef int (*instances_also)(void *arg, struct error *e);
int instances_admit(struct fleet *f, struct instance *const *held, size_t count,
	instances_also also, void *arg, struct error *e);
/* Ends a held instance. */
void instance_drop(struct instance *i);

/* Starts to make a sandbox. Returns -errno and e if it cannot start; then `made` is not called. */
int instances_make(struct fleet *f, const struct instance_order *o, instance_made made, void *arg,
	struct instance_maker **ret, struct error *e);
/* Cancels: the sandbox is ended as soon as possible, and `made` is not called. */
void instance_maker_cancel(struct instance_maker *m);
/* The same when the daemon stops; also ends a held sandbox. */
void instance_maker_stop(struct instance_maker *m);
/* For an agent's refusal of a request that version 2 of its protocol introduced. The error says so
 * if the agent does not know the request; otherwise as agent_event_error(). */
int instance_agent_refusal(const struct agent_event *ev, struct error *e);

#endif
