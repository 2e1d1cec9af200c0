/* Telling a guest who it is, for whoever makes a sandbox: the daemon's loop, and `mayfly run` with
 * --direct.
 *
 *	identity_queue()	HELLO and IDENTITY with fresh entropy
 *	identity_take_hello()	its reply
 *	identity_take()		each reply of an IDENTITY, until it says that all is well
 *
 * A guest that cannot read the host's clock is late by as long as the message was under way, and
 * the first one is under way while its microVM is restored: then the time is told again, to a guest
 * that runs. So nothing of the user's may be queued before identity_take() has returned 1. */
#ifndef DAEMON_IDENTITY_H
#define DAEMON_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "sandbox/agent_client.h"

/* All zero at first; one per sandbox that is made. */
struct identity {
	bool host_clock;  /* the guest reads it */
	unsigned told;	  /* times */
	uint64_t told_ns; /* CLOCK_MONOTONIC, the last time */
};

struct identity_of {
	bool itself; /* with its memory: host name, machine id, user and directory are known */
	/* The sandbox's ID: no other has it, and the machine id follows from it. */
	const char *hostname;
	const char *user, *workdir;
	const char *const *env; /* "NAME=VALUE" */
	uint32_t env_count;
	uint64_t disk_bytes; /* to grow to, 0: its size is right */
};

/* Queues both; the caller sends. */
int identity_queue(
	struct identity *i, struct agent_conn *c, const struct identity_of *of, struct error *e);

/* HELLO and FREEZE: of a guest that is only looked at, and stays who it was. OK comes. */
int identity_queue_look(struct agent_conn *c, struct error *e);

/* template: its name in errors. */
int identity_take_hello(struct identity *i, const struct agent_hello_reply *h, const char *template,
	struct error *e);

/* 1: the guest is who it shall be; 0: the time was queued once more, the caller sends and waits for
 * another reply; -errno: the guest could not set something, which e names. */
int identity_take(struct identity *i, struct agent_conn *c, const struct agent_identity_reply *m,
	struct error *e);

#endif
