/* The program of an invocation, in a sandbox that runs: attached to where it waits, or started;
 * given its input; heard until it ends.
 *
 *	CLEARING   the one that waits has another environment: it is ended
 *	ATTACHING  it may be there already
 *	STARTING   it was not
 *	RUNNING    it has its input
 *	LOOKING    it was killed: was that for want of memory?
 *	OVER       `ended` or `failed` was called, or program_close() */
#ifndef INVOCATION_PROGRAM_H
#define INVOCATION_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "fleet/agent_link.h"
#include "fleet/instance.h"

struct program_order {
	const char *command; /* of a shell; all borrowed until the end */
	const char *dir, *user;
	struct agent_strings env; /* its own variables */
	bool fresh;		  /* one that is there already is ended first */
	const void *input;
	size_t input_bytes;
	bool stays; /* it listens: its input stays open, and it is left running */
};

struct program_ops {
	/* It runs; its input follows. */
	void (*started)(void *arg);
	void (*output)(void *arg, bool errors, const uint8_t *data, size_t n);
	/* The last, one of these. oom: the guest's kernel ended processes for want of memory. */
	void (*ended)(void *arg, const struct agent_exit *how, bool oom);
	void (*failed)(void *arg, const struct error *why);
};

struct program;

/* NULL: *e says why. */
struct program *program_open(struct instance *i, const struct program_order *o,
	const struct program_ops *ops, void *arg, struct error *e);
void program_pause(struct program *p);
void program_resume(struct program *p);
/* Kills it unless it stays, and frees. NULL is fine. */
void program_close(struct program *p);

#endif
