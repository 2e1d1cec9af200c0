/* What an IPv4 address is good for: the one table of special ranges (RFC 6890, docs/network.md). */
#ifndef BASE_PLACE_H
#define BASE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/net.h"

enum place {
	PLACE_PUBLIC,	     /* may be dialled */
	PLACE_DOCUMENTATION, /* as a private one, but a client may name it in its rules */
	PLACE_PRIVATE,	     /* only where the operator opened the range */
	PLACE_CLOSED,	     /* never */
};

/* ret_what (may be NULL): what it is, for people: "loopback". NULL for a public address. */
enum place place_of(uint32_t address, const char **ret_what);

/* Whether all addresses of a range are private or closed for one and the same reason. */
bool place_is_special(const struct net *range);

/* 198.18.0.0/15: addresses that stand for names. */
bool place_is_synthetic(uint32_t address);

#endif
