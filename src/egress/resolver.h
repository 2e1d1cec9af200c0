/* Asks upstream resolvers for the addresses of names: A records, by UDP, and by TCP if an answer is
 * cut or none comes.
 *
 * Our own, as the one that Debian 12 has as a static library (c-ares 1.18) takes the ids of its
 * questions from /dev/urandom, or without it, as in our jail, from rand(). Each question here goes
 * out from a socket and port of its own, with a random id and random letters in upper case (0x20).
 *
 * Remembers answers for as long as they say, 5 minutes at most. Questions for one name that run at
 * the same time are one. Does not block. */
#ifndef EGRESS_RESOLVER_H
#define EGRESS_RESOLVER_H

#include "egress/dns.h"
#include "egress/loop.h"
#include "egress/policy.h"

enum { RESOLVER_QUERIES_MAX = 64, RESOLVER_CACHE_MAX = 128 };

struct resolver;

/* Lies in the asker's structure. */
struct resolver_ask {
	void (*done)(void *arg, const struct dns_answer *a);
	void *arg;
	struct resolver_query *query; /* NULL: none is under way */
	struct resolver_ask *next;
};

struct resolver *resolver_make(struct loop *l); /* NULL: out of memory */
void resolver_free(struct resolver *r);		/* nobody asks any more */

/* Which servers to ask from now on, in this order. Forgets what earlier ones said. */
void resolver_set(struct resolver *r, const struct policy_server *servers, unsigned count);

/* Asks for a name (policy_is_host). Returns true if *ret is the answer, and false if `done` will be
 * called. DNS_SERVFAIL: no server answered, there is none, or too much is asked for at once. */
bool resolver_ask(
	struct resolver *r, struct resolver_ask *ask, const char *name, struct dns_answer *ret);

/* `done` is not called any more. */
void resolver_cancel(struct resolver_ask *ask);

#endif
