/* Tells a guest who it is. The daemon's loop and `mayfly run --direct` use this when they make a
 * sandbox.
 *
 *	identity_queue()	queues HELLO and IDENTITY with fresh entropy
 *	identity_take_hello()	takes HELLO's reply
 *	identity_take()		takes each reply to an IDENTITY, until it returns 1
 *
 * A guest that cannot read the host's clock sets its clock to the time in the message, and is late
 * by as long as the message took. The first message waits while the microVM is restored, so a
 * running guest gets the time once more. Queue no request of the user before identity_take() has
 * returned 1. */
#ifndef SANDBOX_IDENTITY_H
#define SANDBOX_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "sandbox/agent_client.h"

/* Zero at first; one per sandbox. */
struct identity {
	bool host_clock;  /* the guest reads the host's clock */
	unsigned told;	  /* how many times */
	uint64_t told_ns; /* CLOCK_MONOTONIC, last time */
};

struct identity_of {
	bool itself; /* resumes with its memory, so it still has its host name, machine id, user and
		      * directory */
	/* The sandbox's ID. No other sandbox has it, and the machine id derives from it. */
	const char *hostname;
	const char *user, *workdir;
	const char *const *env; /* "NAME=VALUE" */
	uint32_t env_count;
	uint64_t disk_bytes; /* to grow to; 0: its size is right */
};

/* Queues HELLO and IDENTITY; the caller sends. */
int identity_queue(
	struct identity *i, struct agent_conn *c, const struct identity_of *of, struct error *e);

/* Queues HELLO and FREEZE, for a guest that is only looked at and keeps its identity. The reply is
 * OK. */
int identity_queue_look(struct agent_conn *c, struct error *e);

/* template: its name in errors. */
int identity_take_hello(struct identity *i, const struct agent_hello_reply *h, const char *template,
	struct error *e);

/* Returns 1 when the guest has its identity. 0: the time was queued again, so the caller sends and
 * waits for another reply. -errno: the guest could not set something, which e names. */
int identity_take(struct identity *i, struct agent_conn *c, const struct agent_identity_reply *m,
	struct error *e);

#endif
