/* Builds the policy's member `intercept` for a sandbox: its authority and its secrets. */
#ifndef NETWORK_INTERCEPTION_H
#define NETWORK_INTERCEPTION_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "fleet/instance.h"

/* The guest's files of trusted authorities: all of them, and ours only. */
#define TRUST_BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define TRUST_FILE   "/usr/local/share/ca-certificates/mayfly.crt"

/* The authority that the sandbox needs with this network object (or NULL), sealed, malloc'ed; *ret
 * is NULL if it needs none. If the hosts are the same, this is the authority that it has. */
int interception_authority(
	const struct instance *i, const json_t *network, char **ret, struct error *e);

/* The member, with the present values of the secrets. *ret is NULL if nothing is intercepted. End
 * it with intercept_wipe(). Unknown secrets are left out. So are those that cannot be opened, which
 * is logged. If the authority cannot be opened, that is logged and a new one is used, which the
 * guest does not trust. */
int interception_policy(
	const struct instance *i, const json_t *network, json_t **ret, struct error *e);

/* Whether it uses the secret of this name (in lower case) of its key. */
bool interception_uses(const struct instance *i, const char *name);

/* PEM of the authorities that its guest has to trust, malloc'ed; *ret is NULL if there are none. */
int interception_guest(const struct instance *i, char **ret, struct error *e);

/* Whether there are any. */
bool interception_has_guest(const struct instance *i);

#endif
