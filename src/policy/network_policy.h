/* Compiles the settings of operator, key, template and client for a sandbox's network into the
 * policy for its worker (docs/network.md). */
#ifndef POLICY_NETWORK_POLICY_H
#define POLICY_NETWORK_POLICY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/network_floor.h"

enum {
	NETWORK_NAMES_MAX = 64 * 1024,	  /* bytes of the worker's names, as JSON */
	NETWORK_POLICY_MAX = 1024 * 1024, /* bytes of the line, with its line feed */
};

/* The limits above a sandbox's own settings. Each only narrows what the others allow. */
struct network_floors {
	const struct network_floor
		*all;		    /* the operator's; NULL: the default of network_floor_new() */
	const char *key, *template; /* network_list.h; NULL: none */
};

/* Makes the layers of the floors: an array as in the policy. Returns NULL when out of memory. */
json_t *network_floor_layers(const struct network_floors *floors);

/* Makes the policy. network: an object that network_check() accepts, or NULL. Returns NULL when out
 * of memory. */
json_t *network_policy(const struct network_floors *floors, const json_t *network, bool no_internet,
	uint64_t generation);

/* Makes a policy that denies every connection and name for this reason. Returns NULL when out of
 * memory. */
json_t *network_policy_locked(uint64_t generation, const char *reason);

/* Returns an object of the hosts whose requests the policies judge (rules_inspected()), or NULL
 * when out of memory. */
json_t *network_inspected(const struct network_floors *floors, const json_t *network);

/* Makes the line of docs/egress-protocol.md, without line feed: less than NETWORK_POLICY_MAX bytes.
 * Takes ownership of both; names may be NULL. The caller frees the line. Returns NULL when out of
 * memory. */
char *network_policy_line(json_t *policy, json_t *names);

#endif
