/* What is said to the daemon beside the main connection, and whose answers are of no interest:
 * signals, sizes, the lease of a sandbox. Nothing blocks. */
#ifndef CLI_ASIDE_H
#define CLI_ASIDE_H

#include <jansson.h>
#include <stdint.h>

#include "cli/client.h"
#include "cli/remote.h"

struct aside {
	const struct remote *remote; /* borrowed */
	struct client *client;	     /* or NULL */
	uint64_t renew_ns; /* when the lease is due (CLOCK_MONOTONIC), UINT64_MAX: never */
	unsigned lease_s;
};

/* lease_s: the life that the sandbox has at least, at any time; 0: it is not renewed. */
struct aside aside_init(const struct remote *remote, unsigned lease_s);
void aside_close(struct aside *a);

/* body is taken; NULL is out of memory. What fails shows elsewhere, or was of no use any more. */
void aside_say(struct aside *a, const struct client_request *request, json_t *body);
/* Renews the lease if it is due, drops answers. To be called at renew_ns and when the descriptor of
 * aside_poll() is ready. */
void aside_step(struct aside *a);
struct pollfd aside_poll(const struct aside *a);

#endif
