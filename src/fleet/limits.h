/* What a key may have in effect. Its row says 0 for "the daemon's default"; only this module turns
 * that into a number, for whoever checks a request and for whoever compares two keys. */
#ifndef FLEET_LIMITS_H
#define FLEET_LIMITS_H

#include <stdbool.h>

#include "base/error.h"
#include "sandbox/sandbox.h"
#include "store/keys.h"

struct fleet;

/* Its own limits, or else the daemon's, as far as microVMs go. 0: there is none. The tier is
 * borrowed. */
struct store_limits limits_effective(const struct fleet *f, const struct store_limits *own);
/* The same of a key's row. -errno when it cannot be read. */
int limits_of_key(struct fleet *f, const char *key_id, struct store_limits *ret, struct error *e);

struct sandbox_sizes limits_sizes(const struct store_limits *effective);

/* Whether nothing of `l` is more than `max` has, now and after the daemon's defaults have changed.
 * Nobody hands on the right to manage keys, and a tier only unchanged. Both as the rows say. */
bool limits_are_within(
	const struct fleet *f, const struct store_limits *l, const struct store_limits *max);

/* Whether a key may have so many more sandboxes at the same time; ERROR_TOO_MANY. What is made or
 * promised already counts (instances.h). Not for the operator's own key. */
int limits_check_places(struct fleet *f, const char *key_id, unsigned count, struct error *e);

#endif
