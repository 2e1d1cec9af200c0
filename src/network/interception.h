/* What a sandbox's network has of secrets: its authority, sealed, and the policy's member
 * `intercept`. */
#ifndef NETWORK_INTERCEPTION_H
#define NETWORK_INTERCEPTION_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "fleet/instance.h"

/* Where guests have the authorities that they trust: all, and just those that we add. */
#define TRUST_BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define TRUST_FILE   "/usr/local/share/ca-certificates/mayfly.crt"

/* The authority that the sandbox needs with this network object (or NULL), sealed, malloc'ed; *ret is
 * NULL if it needs none. It is the one that it has, if that is for the same hosts. */
int interception_authority(
	const struct instance *i, const json_t *network, char **ret, struct error *e);

/* The member, by what the secrets are now. *ret is NULL if nothing is intercepted. intercept_wipe()
 * it. Unknown secrets, and those that cannot be opened, are left out; the latter are logged. So is an
 * authority that cannot be opened, which another stands in for: its guest does not trust that one. */
int interception_policy(
	const struct instance *i, const json_t *network, json_t **ret, struct error *e);

/* Whether it uses the secret of this name (in lower case) of its key. */
bool interception_uses(const struct instance *i, const char *name);

/* PEM of the authorities that its guest has to trust, malloc'ed; *ret is NULL if there are none. */
int interception_guest(const struct instance *i, char **ret, struct error *e);

/* Whether there are any. */
bool interception_has_guest(const struct instance *i);

#endif
