/* Variables of a sandbox that stand for secrets (docs/network.md). The guest sees a placeholder.
 * Requests to the variable's hosts get the secret in its place. */
#ifndef NETWORK_BINDINGS_H
#define NETWORK_BINDINGS_H

#include <jansson.h>

#include "base/error.h"

struct fleet;

/* Checks the member `secrets` of a creation: an object {"VARIABLE": {"secret": NAME, "hosts":
 * [HOST, ...]}}. Adds a placeholder for each variable to env: the one that placeholders, an object
 * or NULL, has for it, else a new one. *ret is for the sandbox's row, with names in lower case.
 * Fails with ERROR_USAGE, and the message begins with the member, or with ERROR_HOST if a secret
 * cannot be opened. */
int bindings_make(struct fleet *f, const char *key_id, json_t *given, const json_t *placeholders,
	json_t *env, json_t **ret, struct error *e);

/* The value of the secret that a member of such an object names; wipe it with secret_free(). Fails
 * as above. */
int bindings_value(struct fleet *f, const char *key_id, const char *variable, const json_t *given,
	char **ret, struct error *e);

#endif
