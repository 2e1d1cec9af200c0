/* Inside the daemon: making, ending and watching instances. instance.h is the view of others. */
#ifndef DAEMON_INSTANCES_H
#define DAEMON_INSTANCES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "daemon/backend.h"
#include "daemon/instance.h"
#include "daemon/quota.h"
#include "store/events.h"
#include "store/sandboxes.h"
#include "store/templates.h"
#include "store/usage.h"

enum {
	INSTANCE_BUCKETS = 4096,
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
	struct daemon *daemon;
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
	const char *end_reason;	      /* more about it for the event: a word, or NULL */
	uv_work_t work;
};

struct instances {
	struct daemon *daemon;
	struct instance *buckets[INSTANCE_BUCKETS];
	struct instance *other; /* CREATING and ENDING */
	unsigned running, making;
	struct quota quota;
	uv_timer_t deadline, sample, maintain, allowance;
	bool stopping;
};

/* --- making (instance_make.c) --- */

struct instance_order {
	const char *key_id;
	const char *template;
	unsigned cpus; /* 0: the template's, as the next two */
	uint64_t memory_bytes, disk_bytes;
	struct sandbox_sizes max; /* of what the template has, too */
	uint64_t timeout_ns;
	bool secure, auto_pause, auto_pause_memory, auto_resume;
	json_t *metadata; /* objects of strings, borrowed, or NULL */
	json_t *env;
	json_t *network; /* object or NULL */
	bool public_traffic;
};

/* Called once, from the loop: the instance is RUNNING and in the store, or NULL and why. */
typedef void (*instance_made)(void *arg, struct instance *i, const struct error *why);

/* Starts making one. -errno and e when it cannot be started; then `made` is not called. */
int instances_make(struct daemon *d, const struct instance_order *o, instance_made made, void *arg,
	struct instance_maker **ret, struct error *e);
/* Nobody waits any more: it is ended as soon as it can be; `made` is not called. */
void instance_maker_cancel(struct instance_maker *m);
/* Opens the daemon's own connection to the agent (i->link). */
int instance_open_link(struct instance *i, struct error *e);
/* How many are being made for the key. */
unsigned instances_making(struct daemon *d, const char *key_id);

/* --- ending (instance_end.c) --- */

/* Its row says KILLING at the return, so that a client can be told; the rest happens later. type is
 * KILLED, TIMED_OUT or CRASHED. */
int instance_end(struct instance *i, enum store_event_type type, struct error *e);
/* Watches its process; a death ends it as CRASHED. */
int instance_watch(struct instance *i, struct error *e);

/* --- the register (instance.c) --- */

struct instance *instance_new(struct daemon *d);
/* Into the table of running ones. */
void instance_enter(struct instance *i);
/* Out of the table or list that it is in. */
void instance_leave(struct instance *i);
/* Into the list of others. */
void instance_set_aside(struct instance *i, enum instance_state state);
/* Frees it; its handles are closed. A living microVM is released, not ended. */
void instance_free(struct instance *i);
/* field 22 of /proc/pid/stat, 0 when there is no such process. */
uint64_t instance_process_start(pid_t pid);
/* The user's environment of a microVM, "NAME=VALUE"s of all sources, NULL-terminated; free each. */
char **instance_environment(const struct instance *i);
void instance_note_event(struct daemon *d, const char *id, const char *key_id, const char *template,
	enum store_event_type type, const char *details_json);

/* --- life cycle (lifecycle.c) --- */

int instances_start(struct daemon *d, struct error *e); /* recovers, then runs the timers */
void instances_stop(struct daemon *d); /* lets go of all; those being made are ended */
void instances_free(struct daemon *d);
void instances_deadline_changed(struct daemon *d);
void instance_sample(struct instance *i); /* asks the agent for its metrics now */
/* The event of the daemon's own link after readiness. */
void instance_take_metrics(struct instance *i, const struct agent_metrics *m);

/* --- recovery (recovery.c) --- */

int instances_recover(struct daemon *d, struct error *e);

#endif
