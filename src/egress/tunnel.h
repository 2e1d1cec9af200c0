/* Connects to a target through a chain of proxies: the first is dialled, each is asked for the
 * next, and the last for the target. What fails ends it; nothing is ever dialled directly instead.
 *
 * A proxy that a client named is judged as a target is: by the first layers of the policy, by the
 * table of places, and after its name was resolved. The operator's own may be anywhere. */
#ifndef EGRESS_TUNNEL_H
#define EGRESS_TUNNEL_H

#include "egress/context.h"
#include "egress/target.h"

struct tunnel;

/* `done` gets a connected socket, non-blocking, or -errno, one that a program may get; and why,
 * when a proxy is to blame (else NULL). Not before this returns; then the tunnel is over, and the
 * caller frees it. t is borrowed until then. The policy has proxies. NULL: out of memory. */
struct tunnel *tunnel_start(struct context *c, const struct target *t, unsigned ms,
	void (*done)(void *arg, int fd, const char *why), void *arg);

/* In `done`: what encrypts the socket's bytes for a proxy (wrap.h), or NULL. It outlives the
 * tunnel. */
struct wrap *tunnel_take_wrap(struct tunnel *t);

void tunnel_free(struct tunnel *t); /* NULL is fine. Without `done` */

#endif
