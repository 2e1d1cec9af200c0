/* Inside the daemon: making, ending and watching instances. instance.h is the view of others. */
#ifndef DAEMON_INSTANCES_H
#define DAEMON_INSTANCES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "sandbox/backend.h"
#include "fleet/events.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "store/creations.h"
#include "store/sandboxes.h"
#include "store/templates.h"
#include "store/usage.h"

/* Of E2B's envd, as clients are told. */
#define INSTANCE_ENVD_VERSION "0.6.13"

enum {
	INSTANCE_READY_S = 60,	    /* from the microVM's start to its agent's answer */
	INSTANCE_TOKEN_BYTES = 41,  /* 20 random bytes in hexadecimal, NUL */
	INSTANCES_MAKING_MAX = 256, /* at the same time */
};

struct instance_maker;

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
	struct instance_maker *maker; /* while CREATING */
	bool revoked;		      /* its key was: revocation.h */
	bool transient;		      /* it ends with its request: never paused by us */
	uint64_t pause_again_ns;      /* CLOCK_MONOTONIC, of allowance.c */
	const char *end_reason;	      /* more about it for the event: a word, or NULL */
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

/* --- making (instance_make.c) --- */

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
/* Opens the daemon's own connection to the agent (i->link). */
int instance_open_link(struct instance *i, struct error *e);

/* --- ending (instance_end.c) --- */

/* Its row says KILLING at the return, so that a client can be told; the rest happens later. type is
 * KILLED, TIMED_OUT or CRASHED. */
int instance_end(struct instance *i, enum store_event_type type, struct error *e);
/* The rest of instance_end() of one that was busy. */
void instance_finish_end(struct instance *i);
/* Watches its process; a death ends it as CRASHED. */
int instance_watch(struct instance *i, struct error *e);
/* Calls died, once, when the process is over. On success h is to be closed, then *ret_fd. */
int instance_watch_process(
	struct fleet *f, pid_t pid, uv_poll_t *h, int *ret_fd, uv_poll_cb died, struct error *e);

/* --- pausing, snapshots (instance_pause.c) --- */

/* why is NULL when it is paused. */
typedef void (*instance_told)(void *arg, const struct error *why);

/* Pauses a running one: it is not found any more, and comes back if that fails. `told` (may be
 * NULL) is called once. Memory = false keeps its disks only. When its agent does not answer, a
 * pause that is `healthy`, or without memory, fails with ERROR_HOST; another goes on and is noted as
 * STORE_EXTRA_UNRESPONSIVE. -EBUSY while it is busy. */
int instance_pause(struct instance *i, bool memory, bool healthy, instance_told told, void *arg,
	struct error *e);

/* The same without keeping what it is now: its paused state is that snapshot of it. */
int instance_roll_back(struct instance *i, const char *snapshot_id, instance_told told, void *arg,
	struct error *e);

/* Removes a paused one; its client may be told at the return. */
int instance_kill_paused(struct fleet *f, const struct store_sandbox *row, struct error *e);

/* s is NULL when it failed; i may be ENDING by then. */
typedef void (*instance_snapshotted)(
	void *arg, struct instance *i, const struct backend_snapshot *s, const struct error *why);

/* Keeps the state of a running one, which goes on, as the directory `name` of the snapshots. The
 * callback is called once. -EBUSY while it is busy. */
int instance_snapshot(struct instance *i, const char *name, instance_snapshotted snapshotted,
	void *arg, struct error *e);

/* --- who waits (instance_obtain.c) --- */

/* The one with that id that is being made, paused or ended; NULL: none. */
struct instance *instance_find_unsettled(struct fleet *f, const char *id);
void instance_wait(struct instance *i, struct instance_waiter *w);
void instance_unwait(struct fleet *f, struct instance_waiter *w);
/* Calls all who wait for it. */
void instance_settled(struct instance *i);
/* The same of a list that was taken out; why may be NULL, see there. */
void instance_wake(struct instance_waiter *list, const struct error *why);

struct obtaining;

/* Called once, from the loop: the running sandbox, or NULL and why. resumed: it was paused. */
typedef void (*instance_obtained)(
	void *arg, struct instance *i, bool resumed, const struct error *why);

/* What happens at the deadline of one that comes back. */
enum obtain_at_end { OBTAIN_AS_BEFORE, OBTAIN_TO_PAUSE, OBTAIN_TO_KILL };

struct obtain_options {
	bool resume;	     /* a paused one comes back; otherwise that is an error */
	uint64_t timeout_ns; /* then, from the time when it is back; 0: as at its creation */
	bool memory;	     /* false: booted from its disks even if its memory was kept */
	enum obtain_at_end at_end;
	/* Its key's maximum of sandboxes does not count: the operator asks, or it ran a moment ago.
	 */
	bool entitled;
};

/* Waits until the sandbox is running, resuming it where that is asked for. The callback may come
 * before the return; then *ret is NULL. */
void instance_obtain(struct fleet *f, const char *id, const struct obtain_options *o,
	instance_obtained obtained, void *arg, struct obtaining **ret);
/* Nobody waits any more; a resume goes on. */
void obtaining_cancel(struct obtaining *o);

/* --- the register (instance.c) --- */

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

/* --- life cycle (lifecycle.c) --- */

int instances_start(struct fleet *f, struct error *e); /* recovers, then runs the timers */
void instances_stop(struct fleet *f); /* lets go of all; those being made are ended */
void instances_deadline_changed(struct fleet *f);
void instance_sample(struct instance *i); /* asks the agent for its metrics now */
/* The event of the daemon's own link after readiness. */
void instance_take_metrics(struct instance *i, const struct agent_metrics *m);

/* --- recovery (recovery.c) --- */

int instances_recover(struct fleet *f, struct error *e);

#endif
