/* The daemon vouches for its sandboxes: it signs short tokens that say to a service which sandbox a
 * request comes from, and publishes the keys to verify them (docs/network.md).
 *
 * A token goes to the sandbox's worker as a secret does, and never into the guest. The key is made
 * at the first creation that needs one, and sealed in the store. After IDENTITY_KEY_DAYS the next
 * token gets a new key; the older one is published for a day more, so all tokens of it have
 * ended. */
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

/* Whether this is a URL that can name the issuer: http or https, a host, perhaps a port and a
 * path. ERROR_USAGE. */
int identity_check_issuer(const char *url, struct error *e);

/* Makes sure that there is a key, before a sandbox with tokens is made. ERROR_HOST: it cannot be
 * sealed or opened. */
int identity_prepare(struct fleet *f, struct error *e);

/* A new token for the sandbox's token of this name: malloc'ed, the caller wipes it
 * (secret_free()). ERROR_NOT_FOUND: it has none of that name. */
int identity_token(const struct instance *i, const char *name, char **ret, struct error *e);

/* When a worker with tokens is to be told new ones: after half of their life. 0: it has none. */
uint64_t identity_renew_ms(const struct instance *i);

/* The documents of the issuer: the keys (RFC 7517), and the configuration (OpenID Connect Discovery
 * 1.0). NULL: e says why. */
json_t *identity_keys(struct fleet *f, struct error *e);
json_t *identity_configuration(const struct fleet *f, struct error *e);

#endif
