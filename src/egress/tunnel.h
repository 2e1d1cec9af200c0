/* Connects to a target through a chain of proxies. It dials the first one, asks each for the next,
 * and the last for the target. Any failure ends it: the target is never dialled directly instead.
 *
 * A client's proxy is judged like a target: by the first layers of the policy and by the table of
 * special addresses, after its name was resolved. The operator's proxy may have any address. */
#ifndef EGRESS_TUNNEL_H
#define EGRESS_TUNNEL_H

#include "egress/context.h"
#include "egress/target.h"

struct tunnel;

/* Starts; the policy must have proxies. `done` gets a connected, non-blocking socket, or an -errno
 * for the program. why is the reason if a proxy is to blame, else NULL. `done` is called after this
 * returns, and then the caller frees the tunnel. t is borrowed until then. Returns NULL when out of
 * memory. */
struct tunnel *tunnel_start(struct context *c, const struct target *t, unsigned ms,
	void (*done)(void *arg, int fd, const char *why), void *arg);

/* In `done`: returns the wrap (wrap.h) that encrypts the socket's bytes for a proxy, or NULL. It
 * outlives the tunnel. */
struct wrap *tunnel_take_wrap(struct tunnel *t);

void tunnel_free(struct tunnel *t); /* NULL is fine; does not call `done` */

#endif
