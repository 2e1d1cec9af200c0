/* The operator's words about networks as JSON, from the daemon to the processes that build
 * templates:
 *
 * 	{"mode": "on", "off" or "allow-list", "private": ["10.1.0.0/16"], "roots": a path,
 * 	 "rules", "hosts", "dns", "proxy", "policy": as in struct network_floor}
 *
 * It may hold the proxy's password. */
#ifndef POLICY_NETWORK_FLOOR_JSON_H
#define POLICY_NETWORK_FLOOR_JSON_H

#include <jansson.h>

#include "base/error.h"
#include "policy/network_floor.h"

/* NULL: out of memory. */
json_t *network_floor_to_json(const struct network_floor *f);

/* The same again. What is missing or of another type is ERROR_USAGE: a floor must not get lower on
 * its way. The caller frees it. */
int network_floor_from_json(const json_t *object, struct network_floor **ret, struct error *e);

#endif
