/* The effective limits of a key. In a key's row, 0 means "the daemon's default". Only this module
 * turns that into a number, both to check requests and to compare two keys. */
#ifndef FLEET_LIMITS_H
#define FLEET_LIMITS_H

#include <stdbool.h>

#include "base/error.h"
#include "sandbox/sandbox.h"
#include "store/keys.h"

struct fleet;

/* The key's own limits, or else the daemon's, at most what microVMs can have. 0: no limit. The tier
 * is borrowed. */
struct store_limits limits_effective(const struct fleet *f, const struct store_limits *own);
/* The same for a key's row, without its tier. Returns -errno if the row cannot be read. */
int limits_of_key(struct fleet *f, const char *key_id, struct store_limits *ret, struct error *e);

/* The largest sizes of one sandbox under these limits. */
struct sandbox_sizes limits_sizes(const struct store_limits *effective);

/* Whether `l` exceeds `max` in nothing, now and after any change of the daemon's defaults. Both are
 * as in the rows. The right to manage keys cannot be handed on. A tier can only be handed on
 * unchanged. */
bool limits_are_within(
	const struct fleet *f, const struct store_limits *l, const struct store_limits *max);

/* Whether a key may have `count` more sandboxes at the same time; otherwise ERROR_TOO_MANY.
 * Sandboxes that are being made or promised count (places.h). No limit for the operator's own
 * key. */
int limits_check_places(struct fleet *f, const char *key_id, unsigned count, struct error *e);

#endif
