/* Asks upstream resolvers for the addresses of names (A records). It asks by UDP, and by TCP if an
 * answer is truncated or none comes.
 *
 * We do not use c-ares: version 1.18, which Debian 12 has as a static library, makes ids with
 * rand() if there is no /dev/urandom, as in our jail. Here each question goes out from a socket and
 * port of its own, with a random id and random letters in upper case (0x20).
 *
 * Answers are cached for their TTL, at most 5 minutes. Simultaneous questions for one name are sent
 * once. Nothing blocks. */
#ifndef EGRESS_RESOLVER_H
#define EGRESS_RESOLVER_H

#include "egress/dns.h"
#include "egress/loop.h"
#include "egress/policy.h"

enum { RESOLVER_QUERIES_MAX = 64, RESOLVER_CACHE_MAX = 128 };

struct resolver;

/* It lies in the asker's structure. */
struct resolver_ask {
	void (*done)(void *arg, const struct dns_answer *a);
	void *arg;
	struct resolver_query *query; /* NULL: no question is in progress */
	struct resolver_ask *next;
};

/* Whether a server may be asked. It is called for each question. */
typedef bool resolver_may(void *arg, uint32_t server);

/* Returns NULL when out of memory. */
struct resolver *resolver_make(struct loop *l, resolver_may *may, void *arg);
void resolver_free(struct resolver *r); /* no question may be in progress */

/* Sets the servers to ask from now on, in this order. Empties the cache. */
void resolver_set(struct resolver *r, const struct policy_server *servers, unsigned count);

/* Asks for a name (policy_is_host). Returns true if *ret is the answer, and false if `done` will be
 * called. The answer is DNS_SERVFAIL if no server answered, if there is no server, or if too many
 * questions are in progress. */
bool resolver_ask(
	struct resolver *r, struct resolver_ask *ask, const char *name, struct dns_answer *ret);

/* `done` will not be called any more. */
void resolver_cancel(struct resolver_ask *ask);

#endif
