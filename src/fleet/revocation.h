/* What a revoked key leaves behind: sandboxes, their tokens, its webhooks (which the store disables).
 *
 * Sandboxes of a revoked key run until their deadlines unless they are killed. Until then nobody
 * reaches their envd or a port that needs a token, none of them is resumed, and none comes into
 * being that was on its way. */
#ifndef FLEET_REVOCATION_H
#define FLEET_REVOCATION_H

#include <stdbool.h>

#include "base/error.h"

struct fleet;

/* Whether the key was revoked; true as well when that cannot be read. */
bool revocation_of(struct fleet *f, const char *key_id);

/* Revokes the key and tells its sandboxes. kill: they end, paused ones too; those on their way
 * between two states end when they are there. What cannot be ended is logged. */
int revocation_apply(struct fleet *f, const char *key_id, bool kill, struct error *e);

#endif
