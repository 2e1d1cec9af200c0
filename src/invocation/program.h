/* The program of an invocation, in a running sandbox. This module attaches to a program that waits,
 * or starts it, writes its input, and reads its output until it ends.
 *
 *	CLEARING   kills a program that waits (only if `fresh`)
 *	ATTACHING  asks for a program that waits
 *	STARTING   there was none: starts it
 *	RUNNING    the program runs and gets its input
 *	LOOKING    it was killed: asks whether memory ran out
 *	OVER       `ended`, `failed` or program_close() was called */
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
	const char *command; /* for a shell; all pointers are borrowed until the end */
	const char *dir, *user;
	struct agent_strings env; /* variables of this invocation */
	bool fresh;		  /* kill a program that waits already, and start a new one */
	const void *input;
	size_t input_bytes;
	bool stays; /* it listens on a port: its input stays open, and it keeps running */
};

struct program_ops {
	/* The program runs; its input follows. */
	void (*started)(void *arg);
	void (*output)(void *arg, bool errors, const uint8_t *data, size_t n);
	/* One of these is the last call. oom: the guest's kernel killed processes because memory
	 * ran out. */
	void (*ended)(void *arg, const struct agent_exit *how, bool oom);
	void (*failed)(void *arg, const struct error *why);
};

struct program;

/* Returns NULL on failure. */
struct program *program_open(struct instance *i, const struct program_order *o,
	const struct program_ops *ops, void *arg, struct error *e);
void program_pause(struct program *p);
void program_resume(struct program *p);
/* Whether it was started here, and did not wait already. */
bool program_was_started(const struct program *p);
/* Kills the program unless it `stays`, and frees p. NULL is fine. */
void program_close(struct program *p);

#endif
