/* The daemon's view of its sandboxes: one struct instance for each that is alive.
 *
 * The store is the truth about what exists, the file system about what runs (sandbox_dir.h); an
 * instance joins both in memory, for as long as its microVM lives. Instances are found by id, never
 * kept over a return to the loop: look up again, or note the id. What is told below of an instance
 * does not change while it lives, except where it says so.
 *
 *	CREATING   a worker makes the microVM, then its agent is spoken to; not found by
 *	           instance_find()
 *	RUNNING    told to a client, row in the store
 *	PAUSING    its state is being written; not found; goes on as RUNNING if that fails,
 *	           otherwise the row says PAUSED and the instance goes
 *	ENDING     being killed; not found any more; the directory and the row go, then the instance
 */
#ifndef FLEET_INSTANCE_H
#define FLEET_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "fleet/agent_link.h"
#include "fleet/lane.h"
#include "sandbox/backend.h"
#include "store/templates.h"

struct fleet;
struct instance;
struct instance_maker;

enum instance_state { INSTANCE_CREATING, INSTANCE_RUNNING, INSTANCE_PAUSING, INSTANCE_ENDING };

/* The running sandbox of that id (as route_sandbox_id() gives it), or NULL: 502 to its clients. */
struct instance *instance_find(struct fleet *f, const char *id);

/* Calls fn for every running one until it returns non-zero, and returns that. */
int instance_each(struct fleet *f, int (*fn)(struct instance *i, void *arg), void *arg);

const char *instance_id(const struct instance *i);
const char *instance_key_id(const struct instance *i);
const char *instance_template(const struct instance *i); /* its name */
const char *instance_template_id(const struct instance *i);
/* Its key was revoked: no token of it is good any more. May change. */
bool instance_is_revoked(const struct instance *i);
const char *instance_envd_token(const struct instance *i);    /* NULL: not secure */
const char *instance_traffic_token(const struct instance *i); /* NULL: ports are public */
/* The network object of protocol section 2.12 as JSON text, or NULL. May change. */
const char *instance_network_json(const struct instance *i);
/* Environment given at create as a JSON object of strings, or NULL; the agent has it. */
const char *instance_env_json(const struct instance *i);
/* Default user and working directory ("": home) of the template. */
const char *instance_user(const struct instance *i);
const char *instance_workdir(const struct instance *i);
int instance_dirfd(const struct instance *i); /* borrowed */

/* A new connection to its agent (agent_link.h). The link must be closed by the caller; when the
 * instance ends, it is lost. */
int instance_agent_connect(struct instance *i, const struct agent_link_ops *ops, void *arg,
	struct agent_link **ret, struct error *e);

/* --- for the modules of this room --- */

/* What the agent said last, to make rates of counters. */
struct instance_samples {
	bool asked; /* a GET_METRICS is on its way */
	uint64_t at_ns, busy_ns;
};

/* Usage of the current run (meter.h). */
struct instance_meter {
	uint64_t begin_ns;    /* CLOCK_MONOTONIC since when we have counted */
	uint64_t before_ns;   /* uptime before that */
	uint64_t recorded_ns; /* CLOCK_MONOTONIC of the last report */
	uint64_t cpu_ns;      /* read last */
	uint64_t in_bytes, out_bytes;
};

struct instance {
	struct fleet *fleet;
	struct instance *next; /* in its bucket, or in the list of those that are made or end */
	enum instance_state state;
	struct backend_sandbox sandbox; /* id, directory, process */
	uint64_t vmm_start;		/* field 22 of its stat */
	int pid_fd;
	uv_poll_t death; /* of pid_fd */
	bool watched;	 /* death is open */
	char *key_id;	 /* owned strings */
	char *envd_token, *traffic_token, *network_json, *env_json;
	struct sandbox_sizes promised; /* of the host's quota; zeros before */
	struct store_template template;
	uint64_t started_ns;	 /* CLOCK_REALTIME */
	struct agent_link *link; /* the daemon's own, or NULL */
	struct instance_samples samples;
	struct instance_meter meter;
	struct instance_maker *maker;		/* while CREATING */
	const struct agent_link_ops *maker_ops; /* who hears the agent while there is a maker */
	bool revoked;				/* its key was: revocation.h */
	bool transient;				/* it ends with its request: never paused by us */
	uint64_t pause_again_ns;		/* CLOCK_MONOTONIC, of allowance.c */
	const char *end_reason;			/* more about it for the event: a word, or NULL */
	/* Of a paused one that comes back; `sandbox` is its worker's while it is being made. */
	char returning[SANDBOX_ID_BYTES];
	struct lane_job *job; /* that pauses it or makes a snapshot of it, or NULL */
	bool died;	      /* meanwhile */
	bool told;	      /* ENDING: a client was told that it is gone */
	struct instance_waiter *waiters;
	struct error *failure; /* owned: what they hear of one that was not made; or NULL */
	uv_work_t work;
	struct lane_job boot; /* of its template, of a creation that needs one */
};

/* Somebody who waits for it to be running, paused or gone. Owned by that somebody, who takes it out
 * by instance_unwait() if it goes first. */
struct instance_waiter {
	struct instance_waiter *next;
	/* Look again by the id. why: a paused one could not come back; NULL else. */
	void (*settled)(void *arg, const struct error *why);
	void *arg;
};

struct instance *instance_new(struct fleet *f);
/* Into the table of running ones. */
void instance_enter(struct instance *i);
/* Out of the table or list that it is in. */
void instance_leave(struct instance *i);
/* Into the list of others. */
void instance_set_aside(struct instance *i, enum instance_state state);
/* Frees it; its handles are closed. A living microVM is released, not ended. */
void instance_free(struct instance *i);
/* extra_json of its row, malloc'ed; NULL: out of memory. */
char *instance_extra(const struct instance *i, bool transient, bool unresponsive);
/* field 22 of /proc/pid/stat, 0 when there is no such process. */
uint64_t instance_process_start(pid_t pid);
/* The user's environment of a microVM, "NAME=VALUE"s of all sources, NULL-terminated; free each. */
char **instance_environment(const struct instance *i);
/* Calls died, once, when the process is over. On success h is to be closed, then *ret_fd. */
int instance_watch_process(
	struct fleet *f, pid_t pid, uv_poll_t *h, int *ret_fd, uv_poll_cb died, struct error *e);

/* --- who waits --- */

/* The one with that id that is being made, paused or ended; NULL: none. */
struct instance *instance_find_unsettled(struct fleet *f, const char *id);
void instance_wait(struct instance *i, struct instance_waiter *w);
void instance_unwait(struct fleet *f, struct instance_waiter *w);
/* Calls all who wait for it. */
void instance_settled(struct instance *i);
/* The same of a list that was taken out; why may be NULL, see there. */
void instance_wake(struct instance_waiter *list, const struct error *why);

#endif
