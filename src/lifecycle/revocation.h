/* The consequences of revoking a key: for its sandboxes, their tokens, its webhooks (which the
 * store disables) and its secrets (which the store deletes, and the workers of networks are told to
 * forget).
 *
 * Sandboxes of a revoked key run until their deadlines unless they are killed. Until then nobody
 * reaches their envd or a port that needs a token. None is resumed, and creations in progress
 * fail. */
#ifndef LIFECYCLE_REVOCATION_H
#define LIFECYCLE_REVOCATION_H

#include <stdbool.h>

#include "base/error.h"

struct fleet;

/* Whether the key was revoked; also true if that cannot be read. */
bool revocation_of(struct fleet *f, const char *key_id);

/* Revokes the key and marks its sandboxes. kill: ends them, paused ones too. Those between two
 * states end when they get there. Failures to end one are logged. */
int revocation_apply(struct fleet *f, const char *key_id, bool kill, struct error *e);

#endif
