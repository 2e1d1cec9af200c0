/* Who vouches for the proxy of a policy that is spoken with over TLS: what it says itself, or
 * who does for all servers. Kept while policies say the same. */
#ifndef EGRESS_PROXY_TRUST_H
#define EGRESS_PROXY_TRUST_H

#include "egress/proxy.h"
#include "intercept/tls_roots.h"

/* Zeroed at first. */
struct proxy_trust {
	bool made;
	char *ca; /* that it was made of; NULL: the files */
	struct tls_roots roots;
};

/* chain: of the policy, or NULL. fds: as trust_begin has them. 0 or -ENOMEM. */
int proxy_trust_begin(
	struct proxy_trust *t, const struct proxy_chain *chain, const int fds[TRUST_FILES]);

/* A part of the work that is left. 1: that was all; 0: there is more; -ENOMEM. */
int proxy_trust_step(struct proxy_trust *t);

/* All of it. NULL: out of memory, or the chain has no TLS. */
struct tls_setup *proxy_trust_get(
	struct proxy_trust *t, const struct proxy_chain *chain, const int fds[TRUST_FILES]);

void proxy_trust_done(struct proxy_trust *t);

#endif
