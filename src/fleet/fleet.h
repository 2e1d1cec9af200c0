/* All sandboxes of this host: the state that the modules of this room share.
 *
 * The owner of a fleet fills in loop, options, home, dirs, store and the listener for events. Then
 * it calls instances_start() (lifecycle.h). Everything here belongs to the loop's thread. */
#ifndef FLEET_FLEET_H
#define FLEET_FLEET_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "fleet/aside.h"
#include "fleet/key_rates.h"
#include "fleet/lane.h"
#include "fleet/quota.h"
#include "fleet/stock.h"
#include "image/home.h"
#include "sandbox/sandbox_dir.h"
#include "store/lockdown.h"
#include "store/store.h"

struct activity;
struct noted_process;
struct store_event;
struct agents;
struct approvals;
struct between;
struct catalog;
struct backend;
struct flow_leases;
struct instance;
struct invocations;
struct network_floor;
struct obtaining;
struct option_list;
struct instance_places;
struct pool;
struct renewal;
struct runtime_builds;
struct sealer;

enum { FLEET_BUCKETS = 4096 };

/* Limits on paused sandboxes and snapshots (kept.h). */
struct kept_options {
	uint32_t key_count, all_count; /* 0: the defaults of kept.h, in all fields */
	uint64_t key_bytes, all_bytes;
	uint64_t reserve_bytes; /* of the disk, to leave free */
};

struct fleet_options {
	uint32_t sandboxes_max;		/* of one key at the same time */
	uint32_t creates_per_minute;	/* of one key; 0: no limit */
	uint64_t timeout_max_ns;	/* of one sandbox; 0: no limit */
	struct sandbox_sizes sizes_max; /* of one sandbox; 0: SANDBOX_*_MAX */
	struct quota_options quota;	/* of the host */
	struct kept_options kept;
	uint64_t activity_ns; /* how long it is kept after a sandbox's end; 0: 7 days */
	bool no_programs;     /* those that programs start are not recorded (network/reports.h) */
	struct aside_options aside;
	struct stock_options pool;
	const struct backend *backend; /* NULL: microVMs */
	/* What the operator allows sandboxes to reach (policy/network_floor.h), borrowed. NULL: the
	 * defaults. */
	const struct network_floor *network;
	/* PEM file of further certificate authorities. All guests trust them, and so do workers for
	 * the servers of intercepted connections. Borrowed, or NULL. */
	const char *guest_ca;
	/* URL of the signer of sandboxes' tokens (network/identity.h), borrowed. NULL: none has
	 * tokens. */
	const char *issuer;
	uint64_t token_life_s; /* 0: IDENTITY_LIFE_S */
	/* URL at which people reach the API, without a slash at the end. Links that decide
	 * approvals begin with it; NULL: they are paths only. Borrowed. */
	const char *public_url;
	const char *builder; /* the program that builds templates; NULL: this one */
	/* HOST or HOST/PATH: the registry of images that are named without one; NULL: none */
	const char *build_registry;
	uint64_t build_cache_max_ns; /* clients' builds run steps again that were kept longer; 0: no
				      * limit */
	const struct option_list *mirrors;  /* of registries (oci/mirror.h), borrowed, or NULL */
	const struct option_list *runtimes; /* NAME=TEMPLATE (runtimes.h), borrowed, or NULL */
	bool build_runtimes; /* when a client asks for one (catalog/runtime_builds.h) */
};

/* The status of a host, in E2B's words (docs/api.md). Only a READY host makes and resumes
 * sandboxes; those that run go on in any status. The operator sets it; a new daemon is READY. */
enum fleet_status {
	FLEET_READY,
	FLEET_DRAINING,
	FLEET_CONNECTING,
	FLEET_UNHEALTHY,
	FLEET_STANDBY,
	FLEET_STATUSES_,
};

struct fleet {
	uv_loop_t *loop;
	struct fleet_options options;
	struct home home;
	struct sandbox_dirs dirs;
	struct store *store;
	struct sealer *sealer; /* of secrets (seal.h) */
	/* Called after an event was queued for delivery or its receivers have changed. */
	void (*events_changed)(void *arg);
	void *events_arg;
	/* Called with each event of a sandbox's life, often before its commit (events.h). NULL:
	 * nobody is. */
	void (*event_noted)(struct fleet *f, const struct store_event *ev);
	/* Called when what a running sandbox may reach has changed (network.h), so that its worker
	 * is told. NULL: nobody is. */
	void (*network_changed)(struct instance *i);
	/* Called when flows of a running sandbox begin to wait for a person (approvals.h), and when
	 * none waits any more. requests: some are requests within a connection. NULL: nobody is. */
	void (*waits_changed)(struct instance *i, bool any, bool requests);
	/* Called now and then while a sandbox stands still as flows of it wait. */
	void (*stands_still)(struct instance *i);
	/* Called when an approval of a sandbox is over. */
	void (*approval_over)(struct fleet *f, const char *sandbox_id);
	/* Finds a sandbox for traffic, and resumes it if it is paused and `resume` is set
	 * (lifecycle/instance_obtain.h). The callback comes once, perhaps before the return; then
	 * *ret is NULL. */
	void (*obtain)(struct fleet *f, const char *id, bool resume,
		void (*obtained)(
			void *arg, struct instance *i, bool resumed, const struct error *why),
		void *arg, struct obtaining **ret);
	void (*obtain_cancel)(struct obtaining *o); /* NULL is fine */

	struct instance *buckets[FLEET_BUCKETS]; /* RUNNING, by id */
	struct instance *other;			 /* all others */
	unsigned running, making;
	enum fleet_status status;
	struct store_lockdown lockdown; /* in force (network/lockdown.h) */
	uint64_t made, not_made;	/* creations since the start, and those that failed */
	struct quota quota;
	struct instance_places *places;			/* reserved for sandboxes to be made soon */
	struct lane lane, boots, diffs;			/* lane.h */
	struct activity *activity;			/* activity.h */
	struct noted_process *processes[FLEET_BUCKETS]; /* activity_process.h */
	struct approvals *approvals;			/* approvals.h */
	struct between *between;       /* of each sandbox with a worker (between.h) */
	struct key_rates between_asks; /* likewise */
	/* Flows that workers may have (flow_leases.h): of each key that has some, and in all. */
	struct flow_leases *flow_leases;
	unsigned flows_lent;
	struct key_rates webhook_tests; /* deliveries that keys asked for (api_webhooks.c) */
	struct aside aside;
	struct renewal *renewal;	       /* of secrets (renewal.h); NULL: none */
	struct catalog *catalog;	       /* of templates that clients build (catalog.h) */
	struct runtime_builds *runtime_builds; /* NULL: not allowed (runtime_builds.h) */
	struct agents *agents;		       /* that are hosted (agents.h) */
	struct invocations *invocations;       /* of hosted agents (invocations.h) */
	struct pool *pool;		       /* NULL: none */
	uv_timer_t deadline, sample, maintain, allowance, fair, freeze, wait_pause;
	uv_timer_cb on_deadline; /* of `deadline` (deadline.h) */
	bool started, stopping;
};

#endif
