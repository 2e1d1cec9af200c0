/* The workers of the sandboxes' networks (docs/egress-protocol.md): one for each sandbox with
 * traffic.
 *
 * A sandbox's egress channel is polled while it has no worker. When a stream waits in it, a worker
 * is started, connected to and told the policy. When the worker ends, the channel is polled again.
 * A worker that ends without saying that it is idle has failed, and the next one is delayed. The
 * delay doubles from EGRESS_DELAY_MS to EGRESS_DELAY_MAX_MS. It starts over when a worker has lived
 * for EGRESS_DELAY_MAX_MS.
 *
 * After a restart, the daemon finds a sandbox's worker through its socket. Only that worker has the
 * channel. When it is gone, the microVM gets a new channel. */
#ifndef NETWORK_EGRESS_H
#define NETWORK_EGRESS_H

#include <stdbool.h>

enum {
	EGRESS_DELAY_MS = 100,
	EGRESS_DELAY_MAX_MS = 30000,
	EGRESS_LINGER_MS = 500,
	EGRESS_DENIALS_MAX = 64 * 1024,
};

struct egress;
struct instance;

/* Serves a sandbox. For a new one it takes over the far end of the channel; the other case is a
 * sandbox of an earlier daemon. When the instance is freed its worker ends, unless the daemon
 * stops. If memory is out, this logs it and the sandbox has no network. */
void egress_begin(struct instance *i);

/* Calls done once, in a later turn: when the worker enforces the sandbox's newest policy, or is
 * gone. That takes at most EGRESS_PATIENCE_MS (egress_link.h). Returns false, and never calls done,
 * if no worker serves flows or memory is out. */
bool egress_when_applied(struct instance *i, void (*done)(void *arg), void *arg);

/* Whether the sandbox has a worker now. */
bool egress_is_serving(const struct instance *i);

/* The sandbox's policy has changed: tells the worker, if there is one. Called as
 * fleet->network_changed. */
void egress_policy_changed(struct instance *i);

#endif
