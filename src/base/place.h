/* Classifies IPv4 addresses by what may be dialled. Has the only table of special ranges (RFC 6890,
 * docs/network.md). */
#ifndef BASE_PLACE_H
#define BASE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/net.h"

enum place {
	PLACE_PUBLIC,	     /* may be dialled */
	PLACE_DOCUMENTATION, /* treated as private, but a client may name it in its rules */
	PLACE_PRIVATE,	     /* may be dialled if the operator opened the range */
	PLACE_CLOSED,	     /* never */
};

/* *ret_what (ret_what may be NULL) is a word for people, such as "loopback"; NULL for a public
 * address. */
enum place place_of(uint32_t address, const char **ret_what);

/* Whether all addresses of a range lie in one special range that is private or closed. */
bool place_is_special(const struct net *range);

/* Whether the address is in 198.18.0.0/15. The worker gives such addresses to guests in place of
 * names (docs/network.md). */
bool place_is_synthetic(uint32_t address);

#endif
