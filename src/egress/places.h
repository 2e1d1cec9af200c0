/* What is never dialled, whatever the rules say: the table of docs/network.md.
 *
 * Flows carry IPv4 addresses as four bytes, and the worker asks resolvers for A records only. So an
 * address has one spelling here, and IPv6 forms that embed one (mapped, NAT64, 6to4, Teredo) have no
 * way in. */
#ifndef EGRESS_PLACES_H
#define EGRESS_PLACES_H

#include <stdbool.h>
#include <stdint.h>

enum place {
	PLACE_PUBLIC,  /* may be dialled */
	PLACE_PRIVATE, /* only where the operator opened the range */
	PLACE_CLOSED,  /* never */
};

/* ret_what (may be NULL): what it is, for people: "loopback". NULL for a public address. */
enum place place_of(uint32_t address, const char **ret_what);

/* 198.18.0.0/15: addresses that stand for names. */
bool place_is_synthetic(uint32_t address);

#endif
