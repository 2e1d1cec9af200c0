/* Connections from one sandbox, the caller, to a port of another one of the same key, the target
 * (docs/network.md). If the caller's policy allows a connection, its worker asks for it
 * (docs/egress-protocol.md). This module finds the target and checks that its `allowIn` lets the
 * caller in. The target's agent dials, and the worker gets the connection. A paused target is
 * resumed if traffic from outside would resume it.
 *
 * A connection is judged when it is asked for, when the target runs, and when it is handed over. An
 * open connection is reset when the target ends, is paused, or no longer lets the caller in. All
 * functions belong to the loop's thread. */
#ifndef NETWORK_BETWEEN_H
#define NETWORK_BETWEEN_H

#include <jansson.h>

struct between;
struct fleet;
struct instance;

enum {
	BETWEEN_OF_CALLER = 128, /* connections of a caller */
	BETWEEN_TO_TARGET = 128, /* connections to a target: half of what its agent serves */
	BETWEEN_OF_KEY = 1024,	 /* connections between the sandboxes of a key */
	BETWEEN_ALL = 4096,
	BETWEEN_PER_SECOND = 200,     /* asked for by a caller */
	BETWEEN_KEY_PER_SECOND = 400, /* by the sandboxes of a key */
	BETWEEN_ALL_PER_SECOND = 1000,
};

struct between_ops {
	/* Sends a line to the worker, with a descriptor or -1. Takes ownership of fd. If this fails
	 * the worker gives up by itself. */
	void (*say)(void *arg, const char *line, int fd);
	/* Notes a flow in the target's activity, in the form of a worker's message. */
	void (*note)(struct instance *target, const json_t *flow);
};

/* Serves a caller while it has a worker. Borrows ops. Returns NULL when out of memory. */
struct between *between_open(
	const struct instance *caller, const struct between_ops *ops, void *arg);
/* The worker is gone, and its connections with it. NULL is fine. */
void between_close(struct between *b);

/* Takes the member `between` of a line of the worker. Ignores anything that is no such message. */
void between_take(struct between *b, const json_t *said);

/* The target's network has changed: judges the connections to it again. */
void between_judge(const struct instance *target);
/* The target ends or is paused. */
void between_target_gone(const struct instance *target);

#endif
