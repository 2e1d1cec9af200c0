/* Checks the network object of a request (docs/network.md): the syntax and limits of each member,
 * and which members exclude each other. */
#ifndef POLICY_NETWORK_CHECK_H
#define POLICY_NETWORK_CHECK_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "policy/network_floor.h"

enum {
	NETWORK_TARGETS_MAX = 256, /* of allowOut, and of denyOut */
	NETWORK_HTTPS_PORTS_MAX = 64,
};

/* network: an object, or NULL. no_internet: allow_internet_access is false, which denies everything
 * like denyOut ["0.0.0.0/0"]. Ignores unknown members. Fails with ERROR_USAGE or ERROR_LIMIT; the
 * message begins with the member. */
int network_check(const json_t *network, bool no_internet, const struct network_floor *floor,
	struct error *e);

/* Whether an entry of allowOut needs 0.0.0.0/0 in denyOut. All names do, but those of other
 * sandboxes: they do not belong to the Internet. */
bool network_allow_needs_deny(const struct network_target *t);

#endif
