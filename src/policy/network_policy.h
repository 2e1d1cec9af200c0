/* Compiles what operator and client say about a sandbox's network into the policy that its worker
 * is told (docs/network.md). */
#ifndef POLICY_NETWORK_POLICY_H
#define POLICY_NETWORK_POLICY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/network_floor.h"

enum {
	NETWORK_NAMES_MAX = 64 * 1024,	  /* bytes of the worker's names, as JSON */
	NETWORK_POLICY_MAX = 1024 * 1024, /* bytes of the line, with its end */
};

/* What is above a sandbox. Each only narrows what the others allow. */
struct network_floors {
	const struct network_floor
		*all;		    /* the operator's; NULL: the default of network_floor_new() */
	const char *key, *template; /* network_list.h; NULL: none */
};

/* network: an object that network_check() accepts, or NULL. NULL: out of memory. */
json_t *network_policy(const struct network_floors *floors, const json_t *network, bool no_internet,
	uint64_t generation);

/* The hosts whose requests the policies judge, as an object (rules_inspected). NULL: out of
 * memory. */
json_t *network_inspected(const struct network_floors *floors, const json_t *network);

/* The line of docs/egress-protocol.md, without its end, less than NETWORK_POLICY_MAX bytes. Takes
 * both; names may be NULL. The caller frees it. NULL: out of memory. */
char *network_policy_line(json_t *policy, json_t *names);

#endif
