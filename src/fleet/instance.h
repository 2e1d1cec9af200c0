/* The daemon's view of its sandboxes: one struct instance for each live one.
 *
 * The store is the truth about what exists, the file system about what runs (sandbox_dir.h). An
 * instance joins both in memory while its microVM lives. Do not keep a pointer to an instance
 * across a return to the loop: note the id and look it up again. What the functions below return
 * does not change while the instance lives, except where a comment says so.
 *
 *	CREATING   a worker makes the microVM, then the daemon talks to its agent; hidden from
 *	           instance_find()
 *	RUNNING    announced to a client, with a row in the store
 *	PAUSING    its state is being written; hidden. On success the row says PAUSED and the
 *	           instance is freed; on failure it is RUNNING again
 *	ENDING     being killed; hidden. Its directory and row are removed, then the instance */
#ifndef FLEET_INSTANCE_H
#define FLEET_INSTANCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "fleet/agent_link.h"
#include "fleet/lane.h"
#include "sandbox/backend.h"
#include "store/sandboxes.h"
#include "store/snapshots.h"
#include "store/templates.h"

struct egress;
struct fleet;
struct instance;
struct trust;
struct instance_maker;

enum instance_state { INSTANCE_CREATING, INSTANCE_RUNNING, INSTANCE_PAUSING, INSTANCE_ENDING };

/* The running sandbox with this id (from route_sandbox_id()), or NULL: its clients get 502. */
struct instance *instance_find(struct fleet *f, const char *id);

/* Calls fn for each running instance until fn returns non-zero; returns that value or 0. */
int instance_each(struct fleet *f, int (*fn)(struct instance *i, void *arg), void *arg);

const char *instance_id(const struct instance *i);
const char *instance_key_id(const struct instance *i);
const char *instance_template(const struct instance *i); /* its name */
const char *instance_template_id(const struct instance *i);
/* What clients see as its template's id: that of the snapshot that it was made from, if any. */
const char *instance_shown_template_id(const struct instance *i);
/* Its key was revoked, so none of its tokens is valid. May change. */
bool instance_is_revoked(const struct instance *i);
const char *instance_envd_token(const struct instance *i);    /* NULL: not secure */
const char *instance_traffic_token(const struct instance *i); /* NULL: ports are public */
/* The `network` object that the client gave (docs/network.md), as JSON text, or NULL. May
 * change. */
const char *instance_network_json(const struct instance *i);
/* The environment given at creation as a JSON object of strings, or NULL. The agent has it too. */
const char *instance_env_json(const struct instance *i);
int instance_dirfd(const struct instance *i); /* borrowed */

/* How much of the sandbox's gate a link needs. */
enum link_places {
	LINK_OWN,    /* none: the daemon's own, or one that a LINK_DOUBLE answers for */
	LINK_SINGLE, /* for a request of a client, or of another sandbox */
	LINK_DOUBLE, /* and for one more link of the same request */
};

/* Opens a new connection to its agent (agent_link.h). The caller must close the link. When the
 * instance ends, the link is lost. */
int instance_agent_connect(struct instance *i, enum link_places places,
	const struct agent_link_ops *ops, void *arg, struct agent_link **ret, struct error *e);

/* --- for the modules of this room --- */

/* The last sample, to compute rates from counters. */
struct instance_samples {
	bool asked; /* a GET_METRICS is on its way */
	uint64_t at_ns, busy_ns;
};

/* Usage of the current run (meter.h). */
struct instance_meter {
	uint64_t begin_ns;    /* CLOCK_MONOTONIC when this daemon began to count */
	uint64_t before_ns;   /* uptime before begin_ns */
	uint64_t recorded_ns; /* CLOCK_MONOTONIC of the last report */
	uint64_t cpu_ns;      /* last reading */
	uint64_t in_bytes, out_bytes;
	/* of its network */
	uint64_t egress_in_bytes, egress_out_bytes, flows_allowed, flows_denied;
	bool changed; /* those did since the last report */
};

/* How much CPU time it wanted (lifecycle/fair.h). */
struct instance_wanted {
	/* Threads measured: the main one, those of the vCPUs, perhaps others. 0: not measured. */
	unsigned count;
	uint64_t ns[SANDBOX_CPUS_MAX + 2]; /* in which each ran or waited for a CPU */
	bool now;			   /* one of them runs or waits at this moment */
};

struct instance_fair {
	uint64_t at_ns;	 /* CLOCK_MONOTONIC of the last measurement; 0: none yet */
	uint64_t cpu_ns; /* its process's CPU time then */
	struct instance_wanted wanted;
	bool lowered; /* runs at idle priority */
};

/* For a sandbox whose flows wait for a person's decision (lifecycle/freeze.h). */
struct instance_freeze {
	bool waits;	      /* a flow of the sandbox waits */
	bool requests;	      /* and some of what waits are requests within a connection */
	bool to_disk;	      /* it is being paused, as it waited for long (wait_pause.h) */
	uint64_t pause_at_ns; /* CLOCK_MONOTONIC: not before, as a pause has failed */
	bool frozen;	      /* its CPUs are stopped, or may be */
	bool busy;	      /* a worker is changing that */
	bool failed;	      /* the last change failed */
	bool spent;	      /* it was frozen for as long as allowed; set until no flow waits any
			    * more */
	uint64_t since_ns;    /* CLOCK_MONOTONIC; 0: not known to be frozen */
	/* The next two are also in the row's extra_json. */
	uint64_t left_ns; /* time to live that was left when it was frozen; 0: it had no deadline */
	uint64_t end_ns;  /* the deadline that it was given then */
};

struct instance {
	struct fleet *fleet;
	struct instance *next; /* in its bucket, or in fleet->other */
	enum instance_state state;
	struct backend_sandbox sandbox; /* id, directory, process */
	uint64_t vmm_start;		/* field 22 of its stat */
	pid_t network_pid;		/* of its worker, our child; 0: none */
	int pid_fd;
	uv_poll_t death; /* watches pid_fd */
	bool watched;	 /* death is open */
	char *key_id;	 /* owned strings */
	char *envd_token, *traffic_token, *network_json, *env_json;
	char *network_names_json; /* the next three: store/sandboxes.h */
	uint64_t network_generation;
	char *iam_json;			/* its tokens (policy/iam.h), or NULL */
	char *secrets_json, *authority; /* store/sandboxes.h; what is sealed is base64 */
	enum store_internet internet;
	struct sandbox_sizes promised; /* taken from the host's quota; zeros before that */
	struct store_template template;
	/* Of the snapshot that it was made from, else "". Also in the row's extra_json. */
	char snapshot_id[STORE_SNAPSHOT_ID_BYTES];
	uint64_t started_ns;	 /* CLOCK_REALTIME */
	struct agent_link *link; /* the daemon's own link, or NULL */
	struct gate *gate;	 /* of clients' links; NULL: there was none yet */
	struct egress *egress;	 /* serves its network (egress.h), or NULL */
	void (*egress_close)(struct egress *x, bool end); /* unless egress is NULL */
	struct trust *trust; /* installs authorities in its guest (trust.h), or NULL */
	/* Unless trust is NULL. tell: its owner is called. */
	void (*trust_close)(struct trust *t, bool tell);
	/* A JSON array of directories: files that are written outside them are recorded
	 * (network/reports.h). NULL: none are. Also in the row's extra_json. */
	char *files_outside_json;
	struct reports *reports; /* what its agent reports (network/reports.h), or NULL */
	void (*reports_close)(struct reports *all); /* unless reports is NULL */
	struct instance_samples samples;
	struct instance_meter meter;
	struct instance_fair fair;
	struct instance_freeze freeze;
	struct instance_maker *maker;		/* while CREATING */
	const struct agent_link_ops *maker_ops; /* receive the link's events while there is a
						 * maker */
	bool revoked;				/* its key was revoked: revocation.h */
	bool transient;				/* belongs to one request and ends with it; the
						 * daemon never pauses it */
	uint64_t pause_again_ns;		/* CLOCK_MONOTONIC, for allowance.c */
	const char *end_reason;			/* a word of detail for the event, or NULL */
	char *end_text;				/* owned: the reason as a sentence, or NULL */
	/* The id of a paused sandbox that is being resumed. Until the worker is done, `sandbox`
	 * belongs to the worker. */
	char returning[SANDBOX_ID_BYTES];
	struct lane_job *job; /* pauses it or makes a snapshot of it, or NULL */
	bool goes_back;	      /* PAUSING: it is rolled back, and then resumed */
	bool died;	      /* the process died while the job ran */
	bool told;	      /* ENDING: a client was told that the sandbox is gone */
	struct instance_waiter *waiters;
	struct error *failure; /* owned: told to waiters when the sandbox could not be made; or
			        * NULL */
	uv_work_t work;
	struct lane_job boot; /* boots the template, if the creation needs that */
};

/* A waiter for an instance that is on its way to running, paused or gone. The waiter owns it, and
 * calls instance_unwait() if it goes away first. */
struct instance_waiter {
	struct instance_waiter *next;
	/* Look the id up again. why: a paused sandbox could not come back; otherwise NULL. */
	void (*settled)(void *arg, const struct error *why);
	void *arg;
};

/* A new instance in state CREATING, in the list of instances that are not running. NULL when out of
 * memory. */
struct instance *instance_new(struct fleet *f);
/* Enters it into the table of running instances. */
void instance_enter(struct instance *i);
/* Enters it into the list of instances that are not running. */
void instance_set_aside(struct instance *i, enum instance_state state);
/* Frees an instance whose handles are closed. A living microVM is released, not ended. */
void instance_free(struct instance *i);
/* The extra_json of its row, malloc'ed; NULL when out of memory. */
char *instance_extra(const struct instance *i, bool transient, bool unresponsive);
/* The member STORE_EXTRA_FILES_OUTSIDE of a row's extra_json: an array, or NULL. To be freed. */
json_t *instance_files_outside(const struct store_sandbox *row);
/* The member STORE_EXTRA_SNAPSHOT of a row's extra_json, or "". */
void instance_snapshot_of(const struct store_sandbox *row, char ret[STORE_SNAPSHOT_ID_BYTES]);
/* Whether it is paused as it waited for a person for long, and not by a client. */
bool instance_waits_on_disk(const struct store_sandbox *row);
/* Whether traffic resumes this paused sandbox: its creation asked for that, and its memory brings
 * back an agent that answers. */
bool instance_traffic_resumes(const struct store_sandbox *row);
/* Calls died once, when the process is over. On success the caller closes h, then *ret_fd. */
int instance_watch_process(
	struct fleet *f, pid_t pid, uv_poll_t *h, int *ret_fd, uv_poll_cb died, struct error *e);

/* --- waiters --- */

/* The instance with this id that is being made, paused or ended, or NULL. */
struct instance *instance_find_unsettled(struct fleet *f, const char *id);
void instance_wait(struct instance *i, struct instance_waiter *w);
void instance_unwait(struct fleet *f, struct instance_waiter *w);
/* Calls all its waiters. */
void instance_settled(struct instance *i);
/* Calls a list of waiters that was taken out. why may be NULL: see struct instance_waiter. */
void instance_wake(struct instance_waiter *list, const struct error *why);

#endif
