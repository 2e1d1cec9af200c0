/* Builds the policy's member `intercept` for a sandbox: its authority and its secrets. */
#ifndef NETWORK_INTERCEPTION_H
#define NETWORK_INTERCEPTION_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "fleet/instance.h"

/* Returns in *ret the authority that the sandbox needs with this network object (or NULL). It is
 * sealed and malloc'ed, or NULL if it needs none. If the hosts have not changed, it is the present
 * authority. */
int interception_authority(
	const struct instance *i, const json_t *network, char **ret, struct error *e);

struct sealer;
/* Seals the sandbox's authority in memory with another key, as its row is (network/sealing.h). */
int interception_seal_anew(struct instance *i, struct sealer *next, struct error *e);

/* Makes the member, with the present values of the secrets. *ret is NULL if nothing is intercepted.
 * Wipe it with intercept_wipe(). Unknown secrets are left out. Secrets that cannot be opened are
 * logged and left out. If the authority cannot be opened, this logs it and uses a new one, which
 * the guest does not trust. */
int interception_policy(
	const struct instance *i, const json_t *network, json_t **ret, struct error *e);

/* Whether the sandbox uses its key's secret of this name (in lower case). */
bool interception_uses(const struct instance *i, const char *name);

/* Returns in *ret the PEM text of the authorities that the guest has to trust. It is malloc'ed, or
 * NULL if there are none. */
int interception_guest(const struct instance *i, char **ret, struct error *e);

/* Whether there are any. */
bool interception_has_guest(const struct instance *i);

/* Makes what a snapshot needs if sandboxes of a key with these bindings and this network object
 * (each may be NULL) are made from it: their authority, sealed, and the PEM of the authorities that
 * their guests trust. Both are malloc'ed, or NULL if there is none. */
int interception_of_key(struct fleet *f, const char *key_id, json_t *bindings,
	const json_t *network, char **ret_authority, char **ret_guest, struct error *e);

#endif
