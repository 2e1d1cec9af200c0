/* Puts a lockdown of this host (store/lockdown.h) into force, or lifts it.
 *
 * Egress: each worker gets a policy that denies everything, as a new generation, in turns
 * (renewal.h). It ends open flows. Workers that start later get the same policy. Approvals: all
 * that waits is denied at once; approvals.h refuses later decisions and denies later questions.
 * Keys: what takes requests asks at each one (fleet->lockdown). */
#ifndef NETWORK_LOCKDOWN_H
#define NETWORK_LOCKDOWN_H

#include "base/error.h"

struct fleet;

/* Reads it. Called before the sandboxes are found again. */
int lockdown_start(struct fleet *f, struct error *e);

/* Puts into force what the store says. May be called again. Called with all sandboxes found, and
 * after each change. Fails if the store cannot be read; then what was in force stays. */
int lockdown_apply(struct fleet *f, struct error *e);

#endif
