/* Connections from one sandbox to a port of another one of the same key (docs/network.md). The
 * worker of the first asks for them (docs/egress-protocol.md) when its policy allows them. Here is
 * decided which sandbox is meant, and whether its `allowIn` lets the first one in. Its agent
 * dials, and the connection is handed to the worker. A paused one is resumed as traffic from
 * outside resumes it.
 *
 * It is judged when it is asked for, when the other sandbox is there, and when it is handed over.
 * An open one ends when the other sandbox ends or is paused, or does not let this one in any more:
 * the worker is told to reset it. Everything belongs to the loop's thread. */
#ifndef NETWORK_BETWEEN_H
#define NETWORK_BETWEEN_H

#include <jansson.h>

struct between;
struct fleet;
struct instance;

enum {
	BETWEEN_OF_CALLER = 128, /* connections of a sandbox to others */
	BETWEEN_TO_TARGET = 128, /* connections to a sandbox: half of what its agent serves */
	BETWEEN_OF_KEY = 1024,	 /* connections between the sandboxes of a key */
	BETWEEN_ALL = 4096,
	BETWEEN_PER_SECOND = 200, /* asked for by a sandbox */
};

struct between_ops {
	/* A line for the worker, and a descriptor, which is the callee's, or -1. A failure: the
	 * worker gives up by itself. */
	void (*say)(void *arg, const char *line, int fd);
	/* What the other sandbox's activity gets: as a worker says of a flow. */
	void (*note)(struct instance *target, const json_t *flow);
};

/* For the time that a sandbox has a worker. The ops are borrowed. NULL: out of memory. */
struct between *between_open(
	const struct instance *caller, const struct between_ops *ops, void *arg);
/* The worker is gone, and its connections. NULL is fine. */
void between_close(struct between *b);

/* What the worker said: the member `between` of its line. What is no such message is ignored. */
void between_take(struct between *b, const json_t *said);

/* The network of a sandbox has changed: those to it are judged anew. */
void between_judge(const struct instance *target);
/* It ends or is paused. */
void between_target_gone(const struct instance *target);

#endif
