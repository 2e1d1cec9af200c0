/* Requests to a guest's agent that wait for the reply, until a deadline (CLOCK_MONOTONIC
 * nanoseconds; 0: forever). Errors are those of agent_client.h. */
#ifndef SANDBOX_AGENT_CALL_H
#define SANDBOX_AGENT_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "proto/agent_wire.h"
#include "sandbox/agent_client.h"

/* As agent_connect, but waits until an agent has answered a HELLO, and tries again while the guest
 * boots. A guest that came up but is unusable is an error: ERROR_BAD_IMAGE with the agent's
 * words. */
int agent_connect_ready(int dirfd, uint64_t deadline_ns, struct agent_conn **ret, struct error *e);

/* Blocks until an event comes. Returns 1, -ETIMEDOUT (even if events are there after the deadline),
 * or as agent_next_event. */
int agent_wait_event(
	struct agent_conn *c, uint64_t deadline_ns, struct agent_event *ret, struct error *e);

/* Queues a request and waits for its one reply: ev->type is `expect`. An ERROR of the agent goes
 * into e and is returned as -errno. */
int agent_call(struct agent_conn *c, uint64_t deadline_ns, enum agent_type type,
	const void *message, enum agent_type expect, struct agent_event *ev, struct error *e);

/* -EPROTONOSUPPORT (ERROR_INCOMPATIBLE) when the two have no protocol version in common. */
int agent_hello(
	struct agent_conn *c, uint64_t deadline_ns, struct agent_hello_reply *ret, struct error *e);
/* Succeeds even if single items failed; ret says which. ret may be NULL: then a failed item is an
 * error. */
int agent_identity(struct agent_conn *c, uint64_t deadline_ns, const struct agent_identity *m,
	struct agent_identity_reply *ret, struct error *e);
int agent_sync(struct agent_conn *c, uint64_t deadline_ns, unsigned flags, struct error *e);
/* Processes stand still until agent_release, an identity, or AGENT_HOLD_MS of the guest's time. */
enum { AGENT_HOLD_MS = AGENT_HOLD_MS_MAX };
int agent_hold(struct agent_conn *c, uint64_t deadline_ns, struct error *e);
int agent_release(struct agent_conn *c, uint64_t deadline_ns, struct error *e);
int agent_remove(struct agent_conn *c, uint64_t deadline_ns, const char *path, unsigned flags,
	struct error *e);

/* Reads a whole small file. *ret is malloc'ed and NUL-terminated. -EFBIG if it is larger than
 * max. */
int agent_read_file(struct agent_conn *c, uint64_t deadline_ns, const char *path, size_t max,
	uint8_t **ret, size_t *ret_bytes, struct error *e);
/* Creates parents, truncates the file, sets its mode. m->user becomes the owner. */
int agent_write_file(struct agent_conn *c, uint64_t deadline_ns, const struct agent_write *m,
	const void *data, size_t n, struct error *e);

#endif
