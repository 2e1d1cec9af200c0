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

/* Serves a sandbox that was just made, whose channel's far end it takes, or one of an earlier
 * daemon. When the instance is freed its worker ends, unless the daemon stops. If memory runs out,
 * that is logged and the sandbox has no network. */
void egress_begin(struct instance *i);

/* Calls done once, after the return: when the worker has the sandbox's newest policy in force, or
 * is gone. That takes EGRESS_PATIENCE_MS (egress_link.h) at most. Returns false, and never calls
 * done, if no worker serves flows or memory runs out. */
bool egress_when_applied(struct instance *i, void (*done)(void *arg), void *arg);

/* Whether it has a worker now. */
bool egress_is_serving(const struct instance *i);

/* The sandbox's policy has changed: tells the worker, if there is one. For
 * fleet->network_changed. */
void egress_policy_changed(struct instance *i);

#endif
