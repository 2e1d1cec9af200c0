/* A GET of HTTP/1.1 to a server in the guest, over a connection that its agent makes to the port.
 * It needs no address, no network and no program of the image. */
#ifndef SANDBOX_GUEST_HTTP_H
#define SANDBOX_GUEST_HTTP_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "sandbox/agent_client.h"

enum { GUEST_HTTP_S = 5 };

/* How a new connection to the guest's agent is made. */
struct guest_dialler {
	int (*dial)(void *arg, struct agent_conn **ret, struct error *e);
	void *arg;
};

/* Asks once and returns the status. target: path and query. Redirections are not followed.
 *
 * ret_body, if not NULL, is an empty buffer. It gets the body, and its limit is the longest body
 * that is taken. Without it the status is returned as soon as the head has come.
 *
 * Returns 0 if nothing listens, or if the answer does not come within GUEST_HTTP_S, is cut off or
 * is no HTTP. Blocks. */
unsigned guest_http_get(
	const struct guest_dialler *d, uint16_t port, const char *target, struct buf *ret_body);

#endif
