/* Variables of a sandbox that stand for secrets (docs/network.md): the guest has a placeholder, and
 * what it sends to the variable's hosts has the secret. */
#ifndef NETWORK_BINDINGS_H
#define NETWORK_BINDINGS_H

#include <jansson.h>

#include "base/error.h"

struct fleet;

/* Checks the member `secrets` of a creation: {"VARIABLE": {"secret": NAME, "hosts": [HOST, ...]}},
 * an object. Adds a placeholder for each to env. *ret is what the row keeps, with names in lower
 * case. ERROR_USAGE; the message begins with the member. ERROR_HOST: a secret cannot be opened. */
int bindings_make(struct fleet *f, const char *key_id, json_t *given, json_t *env, json_t **ret,
	struct error *e);

#endif
