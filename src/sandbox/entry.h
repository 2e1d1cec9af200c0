/* The entry process of a template: an agent's program, which waits for its input in the snapshot.
 *
 * It is started with ENTRY_TAG, an open standard input and KEEP, so that its output and its end are
 * for the first who attaches: the invocation of a sandbox made from the snapshot. */
#ifndef SANDBOX_ENTRY_H
#define SANDBOX_ENTRY_H

#include <stdint.h>

#include "base/error.h"
#include "sandbox/agent_client.h"

#define ENTRY_TAG "mayfly-entry"

enum {
	ENTRY_LIMIT_S = 60,    /* from the entry's start until it waits for its input */
	ENTRY_ERROR_MAX = 1024 /* bytes of the end of its standard error in messages */
};

/* Waits until the process or one of its children stands at a read of its standard input or, unless
 * port is 0, something listens there. Returns 1; 0 if it does not within the limit, or its
 * connection does not tell. If it ended before, returns 0 with status 0, else fails with the end of
 * its standard error. Unless 1 is returned, the process is gone. Blocks. */
int entry_await(
	struct agent_conn *c, uint32_t pid, uint16_t port, unsigned limit_s, struct error *e);

#endif
