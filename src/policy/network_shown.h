/* What the limits above a sandbox's own settings are, for clients to read. */
#ifndef POLICY_NETWORK_SHOWN_H
#define POLICY_NETWORK_SHOWN_H

#include <jansson.h>

#include "policy/network_policy.h"

/* Returns an object of `operator`, `key` and `template`, without those that set no limit:
 *
 *	{"allow": names and addresses as in allowOut, of which an empty list allows nothing,
 *	 "policy": true, if there is a document (docs/policy.md)}
 *
 * A member that does not apply is left out. Returns NULL if nothing sets a limit, or when out of
 * memory. */
json_t *network_floors_shown(const struct network_floors *floors);

#endif
