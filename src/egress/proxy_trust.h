/* The trusted authorities for a proxy that is reached over TLS: those that the policy names for it,
 * or those of all servers. They are kept until a policy names others. */
#ifndef EGRESS_PROXY_TRUST_H
#define EGRESS_PROXY_TRUST_H

#include "egress/proxy.h"
#include "intercept/tls_roots.h"

/* Zeroed at first. */
struct proxy_trust {
	bool made;
	char *ca; /* what it was made from; NULL: the files */
	struct tls_roots roots;
};

/* Begins to load them. chain: the policy's, or NULL. fds: as for trust_begin(). Returns 0 or
 * -ENOMEM. */
int proxy_trust_begin(
	struct proxy_trust *t, const struct proxy_chain *chain, const int fds[TRUST_FILES]);

/* Does a part of the work. Returns 1 when all is done, 0 if there is more, or -ENOMEM. */
int proxy_trust_step(struct proxy_trust *t);

/* Does all of the work. Returns NULL when out of memory, or if no proxy of the chain uses TLS. */
struct tls_setup *proxy_trust_get(
	struct proxy_trust *t, const struct proxy_chain *chain, const int fds[TRUST_FILES]);

void proxy_trust_done(struct proxy_trust *t);

#endif
