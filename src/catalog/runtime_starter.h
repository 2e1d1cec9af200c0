/* The process that starts builds of runtimes' templates.
 *
 * The daemon gives up its rights before it serves (daemon/rights.h), and what it starts then has no
 * more of them. Recipes need them: mmdebstrap is root of ids that are nobody's on the host
 * (jail/workshop.h). So a process with the rights of the operator is forked before. It reads
 * nothing but three kinds of messages of the daemon, and a build is named in them by the number of
 * a runtime. It starts `mayfly template build` for what the operator's list says of that runtime,
 * one at a time. So whoever takes over the daemon can build the operator's templates, not others.
 *
 * The build's process starts in two steps, so that it can be put into a control group between them.
 * It has its progress on standard error (`--progress json`, docs/cli.md). It is killed with the
 * starter, and the starter ends with the daemon.
 *
 * Messages are struct runtime_message, over a socket that keeps their bounds. */
#ifndef CATALOG_RUNTIME_STARTER_H
#define CATALOG_RUNTIME_STARTER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct fleet_options;

enum runtime_message_kind {
	/* to the starter */
	RUNTIME_BEGIN, /* value: the runtime's number. Leads to BORN, or to ENDED with -errno */
	RUNTIME_GO,    /* after BORN: the process becomes the build */
	RUNTIME_KILL,  /* leads to ENDED, unless that is on its way */
	/* from it */
	RUNTIME_BORN,  /* value: the pid of a process that has started nothing yet */
	RUNTIME_ENDED, /* value: as waitpid() has it, or -errno; all that it wrote is in the pipe */
};

struct runtime_message {
	int32_t kind, value;
};

struct runtime_starter {
	pid_t pid;
	int fd;	    /* the socket for messages; does not block */
	int out_fd; /* the end of a pipe from which the builds' standard error is read */
};

/* Forks the process. This process must have one thread. All of o must outlive it, but the process
 * has a copy. *ret is malloc'ed. */
int runtime_starter_open(
	const struct fleet_options *o, struct runtime_starter **ret, struct error *e);

/* Sends a message: 0 or -errno. */
int runtime_starter_send(
	const struct runtime_starter *s, enum runtime_message_kind kind, int32_t value);

/* Receives one: 0, -EAGAIN, or another -errno when the process has ended. */
int runtime_starter_receive(const struct runtime_starter *s, struct runtime_message *ret);

/* Kills the build, if one runs, ends the process, and waits for both. NULL is fine. */
void runtime_starter_free(struct runtime_starter *s);

#endif
