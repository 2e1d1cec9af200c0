/* IPv4 addresses and ranges. An address is a number in the host's order here; text is dotted
 * decimal only, in one spelling: no octal, no hexadecimal, no short form, no leading zero. */
#ifndef BASE_NET_H
#define BASE_NET_H

#include <stdbool.h>
#include <stdint.h>

enum { NET_TEXT_BYTES = 16 };

struct net {
	uint32_t base, mask;
};

static inline bool net_has(const struct net *n, uint32_t address)
{
	return (address & n->mask) == n->base;
}

/* Whether all of `inner` is in `outer`. */
static inline bool net_is_within(const struct net *inner, const struct net *outer)
{
	return (inner->mask & outer->mask) == outer->mask && net_has(outer, inner->base);
}

/* 0 or -EINVAL. */
int net_parse_address(const char *text, uint32_t *ret);

/* "192.0.2.0/24", or an address alone (/32). Bits of the address after the prefix must be zero. 0
 * or -EINVAL. */
int net_parse(const char *text, struct net *ret);

/* Writes dotted decimal text with a NUL. Returns out. */
const char *net_format(uint32_t address, char out[NET_TEXT_BYTES]);

/* Read and write an address as four bytes in network order. */
uint32_t net_get(const uint8_t bytes[4]);
void net_put(uint32_t address, uint8_t bytes[4]);

#endif
