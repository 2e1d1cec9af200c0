/* Identity tokens (docs/network.md). The daemon signs short-lived tokens that tell a service which
 * sandbox a request comes from. It publishes the keys to verify them.
 *
 * A token goes to the sandbox's worker like a secret, and never into the guest. The first creation
 * that needs a key makes it; the store keeps it sealed. After IDENTITY_KEY_DAYS the next token gets
 * a new key. The old key stays published for one more day, until all its tokens have expired. */
#ifndef NETWORK_IDENTITY_H
#define NETWORK_IDENTITY_H

#include <jansson.h>

#include "base/error.h"
#include "fleet/instance.h"

struct fleet;

enum {
	IDENTITY_LIFE_S = 600, /* of a token */
	IDENTITY_KEY_DAYS = 90,
	IDENTITY_ISSUER_MAX = 256,
};

/* Checks that a URL can name the issuer: http or https, a host, perhaps a port and a path. Fails
 * with ERROR_USAGE. */
int identity_check_issuer(const char *url, struct error *e);

/* Makes sure that there is a key. Call it before a sandbox with tokens is made. Fails with
 * ERROR_HOST if the key cannot be sealed or opened. */
int identity_prepare(struct fleet *f, struct error *e);

/* Makes a fresh value of the sandbox's token `name`. It is malloc'ed; wipe it with secret_free().
 * Fails with ERROR_NOT_FOUND if the sandbox has no such token. */
int identity_token(const struct instance *i, const char *name, char **ret, struct error *e);

/* Returns after how many ms a worker needs new tokens: half of their life. Returns 0 if the sandbox
 * has no tokens. */
uint64_t identity_renew_ms(const struct instance *i);

/* Make the issuer's documents: the keys (RFC 7517), and the configuration (OpenID Connect Discovery
 * 1.0). Both return NULL on failure. */
json_t *identity_keys(struct fleet *f, struct error *e);
json_t *identity_configuration(const struct fleet *f, struct error *e);

#endif
