/* Connections to other sandboxes (docs/network.md). The worker has judged them by its own policy.
 * The daemon checks that the other sandbox lets this one in, connects, and sends a descriptor over
 * the link. After that, bytes go between the two guests without the daemon.
 *
 *	ASKED	the daemon was asked. To OPEN, or over by a refusal
 *	OPEN	until the flow ends, or the daemon says that it is over: the other sandbox is gone,
 *		or does not let this one in any more
 *
 * The worker tells a new daemon of all of them again. */
#ifndef EGRESS_BETWEEN_H
#define EGRESS_BETWEEN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rules/between_name.h"

struct context;

enum { BETWEEN_EARLY_MAX = 64 << 10, BETWEEN_REASON_MAX = 120 };

/* The daemon's answer. */
struct between_answer {
	int fd;		    /* connected, non-blocking, the receiver's; -1: refused */
	const void *early;  /* bytes that the server has sent already */
	size_t early_bytes; /* BETWEEN_EARLY_MAX at most */
	int err;	    /* errno for the program; 0: denied */
	const char *reason; /* of a denial, BETWEEN_REASON_MAX bytes at most */
};

/* It lies in the asker's structure. A zeroed one is off. */
struct between {
	struct context *context; /* NULL: off */
	struct between *previous, *next;
	uint64_t id;
	bool open;
	uint16_t port;
	char to[BETWEEN_LABEL_BYTES]; /* the sandbox's id once it is open */
	void (*done)(void *arg, const struct between_answer *a);
	void (*over)(void *arg); /* an open connection is over; the callback may end it */
	void *arg;
};

/* Asks for a port of a sandbox. `done` is called once, not before this returns. 0, or -EMSGSIZE:
 * the daemon does not listen. */
int between_ask(struct context *c, struct between *b, uint16_t port, const char *to);

/* The flow has ended. reset: one side reset it. Does nothing if b is off. */
void between_end(struct between *b, uint64_t up, uint64_t down, bool reset);

/* Takes a message of the daemon, and the descriptor that came with it, or -1. Takes ownership of
 * fd. Returns 0 or -EINVAL. */
int between_take(struct context *c, const json_t *message, int fd);

/* Tells a new daemon of all connections. An open connection that cannot be told is over. */
void between_tell(struct context *c);

#endif
