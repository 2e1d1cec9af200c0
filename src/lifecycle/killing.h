/* Kills sandboxes that nobody waits for. */
#ifndef LIFECYCLE_KILLING_H
#define LIFECYCLE_KILLING_H

#include "base/error.h"

struct fleet;

/* Ends a sandbox, a paused one too. One between two states ends when it gets there. Failures to end
 * it are logged; what: whose it is, for that message, static. Fails when out of memory. */
int killing_begin(struct fleet *f, const char *sandbox_id, const char *what, struct error *e);

#endif
