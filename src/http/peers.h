/* Limits for clients of the public port, per IP address. For IPv6 the first 64 bits count, since
 * one customer gets that many addresses.
 *
 * Reverse proxies speak for many clients. So loopback addresses and those named with peers_trust()
 * have no limits of their own. For guesses, the last address in their X-Forwarded-For counts
 * instead. */
#ifndef HTTP_PEERS_H
#define HTTP_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	PEERS_TRUSTED_MAX = 64,
	PEERS_GUESSES = 60,	    /* wrong ones of an address in a burst, */
	PEERS_GUESSES_A_SECOND = 5, /* and then at this rate */
};

struct peers;

/* A peer with connections. */
struct peer {
	struct peer *next;
	uint8_t address[16];
	unsigned connections;
	bool trusted; /* a proxy: speaks for others */
};

struct peers *peers_new(void); /* NULL: out of memory */
void peers_free(struct peers *p);

/* Trusts a proxy's address. Returns 0, or -errno with *e. */
int peers_trust(struct peers *p, const char *address, struct error *e);

/* Counts a connection of that address. "" or no valid address counts as trusted. NULL: out of
 * memory. */
struct peer *peers_join(struct peers *p, const char *address);
void peers_leave(struct peers *p, struct peer *peer); /* NULL is fine */

/* Whether a client may try another secret: not if it sent wrong ones too fast. forwarded is the
 * request's X-Forwarded-For, or NULL. */
bool peers_may_guess(
	struct peers *p, const struct peer *peer, const char *forwarded, uint64_t now_ns);
/* Notes a wrong secret. */
void peers_note_guess(
	struct peers *p, const struct peer *peer, const char *forwarded, uint64_t now_ns);

#endif
