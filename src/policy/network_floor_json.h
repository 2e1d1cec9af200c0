/* The operator's network settings as JSON. The daemon sends them to the processes that build
 * templates:
 *
 *	{"mode": "on", "off" or "allow-list", "private": ["10.1.0.0/16"], "roots": a path,
 *	 "flows": of a sandbox,
 *	 "rules", "hosts", "dns", "proxy", "policy": as in struct network_floor}
 *
 * The JSON may hold the proxy's password. */
#ifndef POLICY_NETWORK_FLOOR_JSON_H
#define POLICY_NETWORK_FLOOR_JSON_H

#include <jansson.h>

#include "base/error.h"
#include "policy/network_floor.h"

/* Returns NULL when out of memory. */
json_t *network_floor_to_json(const struct network_floor *f);

/* Reads a floor back. A member that is missing or of another type is an error (ERROR_USAGE), so
 * that no limit gets lost on the way. The caller frees *ret. */
int network_floor_from_json(const json_t *object, struct network_floor **ret, struct error *e);

#endif
