/* The daemon's connection with the worker of one sandbox: lines of JSON over egress.sock
 * (docs/egress-protocol.md).
 *
 * A worker may have been taken over. Its lines have at most EGRESS_LINE_MAX bytes. The daemon reads
 * at most EGRESS_BYTES_A_STEP of them in EGRESS_STEP_MS. The link is lost if the worker refuses a
 * policy, or does not confirm it within EGRESS_PATIENCE_MS. Callbacks may close the link; no
 * function of this header calls back. */
#ifndef NETWORK_EGRESS_LINK_H
#define NETWORK_EGRESS_LINK_H

#include <jansson.h>
#include <uv.h>

#include "base/error.h"

enum {
	EGRESS_LINE_MAX = 256 * 1024, /* of the worker */
	EGRESS_SAY_MAX = 1024 * 1024, /* to the worker */
	EGRESS_BYTES_A_STEP = 128 * 1024,
	EGRESS_STEP_MS = 100,
	EGRESS_PATIENCE_MS = 5000,
	EGRESS_QUEUE_MAX = 512, /* lines besides the policy's that wait */
};

struct egress_link;

struct egress_link_ops {
	/* A line of the worker, borrowed. */
	void (*line)(json_t *object, void *arg);
	/* It is over. The owner may only close it, now or later. */
	void (*lost)(const char *why, void *arg);
};

/* dirfd: the sandbox's directory, borrowed. Fails if nobody listens. */
int egress_link_open(uv_loop_t *loop, int dirfd, const struct egress_link_ops *ops, void *arg,
	struct egress_link **ret, struct error *e);

/* Sends a policy's line, without its end, when what was sent before has gone out. A line that still
 * waits is replaced. What is not needed any more is wiped: it may hold secrets. Returns 0,
 * -EMSGSIZE or -ENOMEM. */
int egress_link_say(struct egress_link *l, const char *line, uint64_t generation);

/* Sends another line, without its end, behind those that wait, and with it a descriptor, which is
 * the link's from then on; -1: none. Returns 0, -EMSGSIZE: too many wait, or -ENOMEM; then the
 * descriptor is closed. */
int egress_link_send(struct egress_link *l, const char *line, int fd);

/* No callback follows. NULL is fine. */
void egress_link_close(struct egress_link *l);

#endif
