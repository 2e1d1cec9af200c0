/* Sandboxes that stand still while a person is asked (docs/consent.md).
 *
 * While flows of a sandbox wait whose network says so, its CPUs are stopped: one freeze, however
 * many wait. Its monotonic clock stands still, and so does its time to live, for FREEZE_MAX_S at
 * most. When none waits any more it goes on, and is told the time. One that cannot be stopped goes
 * on as it is. */
#ifndef LIFECYCLE_FREEZE_H
#define LIFECYCLE_FREEZE_H

#include <stdbool.h>

struct instance;

enum { FREEZE_MAX_S = 86400 };

/* For fleet->waits_changed. */
void freeze_waits_changed(struct instance *i, bool any);

/* A sandbox of an earlier daemon may stand still: it goes on, until its worker tells what waits. */
void freeze_recover(struct instance *i);

#endif
