/* Decides which resolvers a sandbox asks: its own, or the operator's.
 *
 * Lists of names mean what resolvers say. A client that chose the resolver under a list of names
 * could give any address to an allowed name, and could tell its resolver anything in questions. So
 * every floor must allow a client's resolver:
 *
 * A floor without a limit, or one that observes, allows all. One with rules by address alone allows
 * a resolver if it allows flows to its port 53. One with names does so if a rule says it that has
 * this port, or a range that is not all addresses: neither a default nor 0.0.0.0/0 is enough. */
#ifndef POLICY_NETWORK_DNS_H
#define POLICY_NETWORK_DNS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/network_floor.h"

/* Whether all layers allow this resolver. layers: an array as in a worker's policy. A layer that
 * cannot be read allows none. */
bool network_dns_allows(json_t *layers, uint32_t address);

/* Chooses the resolvers of a worker's policy. layers: those of all floors. given: dnsServers, or
 * NULL. If it names some and none is allowed, the operator's are asked. If it is empty, nobody is.
 * *ret_given: they are the client's. Returns NULL when out of memory. */
json_t *network_dns_choose(
	const struct network_floor *floor, json_t *layers, const json_t *given, bool *ret_given);

#endif
