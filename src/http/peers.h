/* Who is at the other end of the public port, as far as limits go: an IP address, of IPv6 its first
 * 64 bits, since that much is given to one customer.
 *
 * Reverse proxies speak for many: loopback addresses and those that were named with peers_trust()
 * have no limits of their own. For guesses, the last address of their X-Forwarded-For counts
 * instead. */
#ifndef HTTP_PEERS_H
#define HTTP_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	PEERS_TRUSTED_MAX = 64,
	PEERS_GUESSES = 60,	    /* wrong ones of an address at once, */
	PEERS_GUESSES_A_SECOND = 5, /* and then so many */
};

struct peers;

/* A peer with connections. */
struct peer {
	struct peer *next;
	uint8_t address[16];
	unsigned connections;
	bool trusted; /* speaks for others */
};

struct peers *peers_new(void); /* NULL: out of memory */
void peers_free(struct peers *p);

/* An address of a proxy. 0, or -errno with *e. */
int peers_trust(struct peers *p, const char *address, struct error *e);

/* Counts a connection of that address ("" or what is none: a trusted one). NULL: out of memory. */
struct peer *peers_join(struct peers *p, const char *address);
void peers_leave(struct peers *p, struct peer *peer); /* NULL is fine */

/* Whether somebody who guesses secrets may go on: not when wrong ones came too fast. forwarded: the
 * request's X-Forwarded-For, or NULL. */
bool peers_may_guess(
	struct peers *p, const struct peer *peer, const char *forwarded, uint64_t now_ns);
/* It was wrong. */
void peers_note_guess(
	struct peers *p, const struct peer *peer, const char *forwarded, uint64_t now_ns);

#endif
