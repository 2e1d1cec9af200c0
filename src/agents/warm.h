/* What a version's snapshot has of its variables and secrets, so that its program can wait there
 * with them. Plain variables are in it as they are. Of each secret it has a placeholder, which is
 * made once for the version: an invocation binds it to the value that the secret has then. What
 * intercepts the connections has one authority for all sandboxes of the version, which the snapshot
 * trusts; its key stays with the daemon. For the loop's thread. */
#ifndef AGENTS_WARM_H
#define AGENTS_WARM_H

#include <jansson.h>

#include "base/error.h"
#include "store/builds.h"

struct fleet;

/* Checks `secrets` of an agent's settings, or NULL, and makes the bindings of those that are hidden
 * (network/bindings.h), with their placeholders in env. *ret_plain: the name of a variable whose
 * secret the program gets; both results stay if there is none. */
int agents_take_secrets(struct fleet *f, const char *key_id, json_t *secrets, json_t *env,
	json_t **ret_bindings, const char **ret_plain, struct error *e);

/* Answers what the process of a version's build said (catalog/jobs.h), and keeps what invocations
 * need in the version's row, with what they may reach (reach.h):
 *
 *	{"env": {VARIABLE: TEXT, ...}, "trust": PEM}
 *
 * Without env the snapshot can have none: its program is started by each invocation, and the
 * build's log says why. trust may be missing. ERROR_USAGE: a secret is not there, or the network's
 * settings are wrong. */
int agents_warm_answer(struct fleet *f, const struct store_build *b, const json_t *said,
	json_t **ret, struct error *e);

#endif
