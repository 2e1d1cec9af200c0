/* The daemon's connection with the worker of one sandbox: lines of JSON over egress.sock
 * (docs/egress-protocol.md).
 *
 * The worker is not trusted, because an attacker may have taken it over. Its lines have at most
 * EGRESS_LINE_MAX bytes. The daemon reads at most EGRESS_BYTES_A_STEP in EGRESS_STEP_MS, in turns
 * with all other links that guests can fill (fleet/turns.h). The link is lost if the worker refuses
 * a policy, or does not confirm it within EGRESS_PATIENCE_MS. Callbacks may close the link; no
 * function of this header calls back. */
#ifndef NETWORK_EGRESS_LINK_H
#define NETWORK_EGRESS_LINK_H

#include <jansson.h>
#include <uv.h>

#include "base/error.h"

enum {
	EGRESS_LINE_MAX = 256 * 1024, /* from the worker */
	EGRESS_SAY_MAX = 1024 * 1024, /* to the worker */
	EGRESS_BYTES_A_STEP = 128 * 1024,
	EGRESS_STEP_MS = 100,
	EGRESS_PATIENCE_MS = 5000,
	EGRESS_QUEUE_MAX = 512, /* waiting lines, besides the policy's */
};

struct egress_link;

struct egress_link_ops {
	/* A line of the worker, borrowed. */
	void (*line)(json_t *object, void *arg);
	/* The link is lost. The owner may only close it, now or later. */
	void (*lost)(const char *why, void *arg);
};

/* dirfd: the sandbox's directory, borrowed. Fails if nobody listens. */
int egress_link_open(uv_loop_t *loop, int dirfd, const struct egress_link_ops *ops, void *arg,
	struct egress_link **ret, struct error *e);

/* Sends a policy's line (without line feed) after all that was sent before. It replaces a policy
 * that still waits. Lines are wiped after use, because they may hold secrets. Returns 0, -EMSGSIZE
 * or -ENOMEM. */
int egress_link_say(struct egress_link *l, const char *line, uint64_t generation);

/* Sends any other line (without line feed), behind those that wait, with a descriptor or -1. Takes
 * ownership of fd, also on failure. Returns 0, -EMSGSIZE if too many wait, or -ENOMEM. */
int egress_link_send(struct egress_link *l, const char *line, int fd);

/* No callback follows. NULL is fine. */
void egress_link_close(struct egress_link *l);

#endif
