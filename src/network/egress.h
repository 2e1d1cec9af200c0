/* The workers of the sandboxes' networks (docs/egress-protocol.md): one for each sandbox with
 * traffic.
 *
 * A sandbox's egress channel is polled while it has no worker. When a stream waits in it, a worker
 * is started, connected to and told the policy. When the worker ends, the channel is polled again.
 * If it had not said that it is idle, it has failed, and the next one waits. The delay doubles from
 * EGRESS_DELAY_MS to EGRESS_DELAY_MAX_MS. It begins anew when a worker has lived that long.
 *
 * After a restart of the daemon, the worker that serves the sandbox is found through its socket.
 * Only it has the channel then, so once it is gone the microVM gets a new one. */
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

/* Begins to serve a sandbox that was made, and takes the far end of its channel, or one of an
 * earlier daemon. Until the instance is freed: then the worker ends, too, unless the daemon stops.
 * Without memory the sandbox has no network, which is logged. */
void egress_begin(struct instance *i);

/* Calls done once, later, when the worker has the sandbox's newest policy in force or is gone,
 * which takes EGRESS_PATIENCE_MS (egress_link.h) at most. Returns false, and does not, if there is
 * no worker that serves flows, or no memory. */
bool egress_when_applied(struct instance *i, void (*done)(void *arg), void *arg);

/* Whether it has a worker now. */
bool egress_is_serving(const struct instance *i);

/* The sandbox's policy has changed: tells the worker, if there is one. For
 * fleet->network_changed. */
void egress_policy_changed(struct instance *i);

#endif
