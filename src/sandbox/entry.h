/* The entry process of a template: an agent's program, which waits for its input in the snapshot.
 *
 * It is started with ENTRY_TAG, an open standard input and KEEP, so that its output and its end are
 * for the first who attaches: the invocation of a sandbox made from the snapshot. */
#ifndef SANDBOX_ENTRY_H
#define SANDBOX_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "sandbox/agent_client.h"
#include "sandbox/entry_ping.h"

#define ENTRY_TAG "mayfly-entry"

enum {
	ENTRY_LIMIT_S = 60,   /* from the entry's start until it waits for its input */
	ENTRY_ERROR_MAX = 256 /* bytes of the end of its standard error in messages */
};

/* Where a program may listen. */
struct entry_port {
	uint16_t port; /* 0: it does not */
	struct guest_dialler dialler;
};

/* Waits until the process or one of its children stands at a read of its standard input. Unless the
 * port is 0, it is also enough that something listens there and says that it is ready
 * (entry_ping.h). Returns 1, or 0 if neither is so within the limit, or if the connection does not
 * tell. If the process ended before, returns 0 with status 0, else fails with the end of its
 * standard error. Unless 1 is returned, the process is gone. Blocks. */
int entry_await(struct agent_conn *c, uint32_t pid, const struct entry_port *port, unsigned limit_s,
	struct error *e);

/* Whether something in the guest listens on a TCP port: 1, 0, or -errno when its agent does not
 * tell until the deadline (CLOCK_MONOTONIC). Blocks. */
int entry_port_listens(struct agent_conn *c, uint64_t deadline_ns, uint16_t port, struct error *e);

#endif
