/* Sends side messages to the daemon, on another connection than the main one: signals, terminal
 * sizes, renewals of a sandbox's lease. Their answers are ignored. Nothing blocks. */
#ifndef CLI_ASIDE_H
#define CLI_ASIDE_H

#include <jansson.h>
#include <stdint.h>

#include "cli/remote/client.h"
#include "cli/remote/remote.h"

struct aside {
	const struct remote *remote; /* borrowed */
	struct client *client;	     /* or NULL */
	uint64_t renew_ns; /* CLOCK_MONOTONIC time of the next renewal; UINT64_MAX: never */
	unsigned lease_s;
};

/* lease_s: the sandbox always lives at least that long; 0: the lease is not renewed. */
struct aside aside_init(const struct remote *remote, unsigned lease_s);
void aside_close(struct aside *a);

/* Sends a message; takes ownership of body (NULL: out of memory). A failure shows elsewhere, or no
 * longer matters. */
void aside_say(struct aside *a, const struct client_request *request, json_t *body);
/* Renews the lease if it is due, and drops answers. Call it at renew_ns, and when the descriptor of
 * aside_poll() is ready. */
void aside_step(struct aside *a);
struct pollfd aside_poll(const struct aside *a);

#endif
