/* Sandboxes that stand still while a person is asked (docs/consent.md).
 *
 * While flows of a sandbox wait whose network says so, its CPUs are stopped: one freeze, however
 * many wait. Its monotonic clock stands still, and so does its time to live, for FREEZE_MAX_S at
 * most: then it goes on although they wait. When none waits any more it goes on, and is told the
 * time. A change that fails is tried again. It goes on for its pauses and snapshots, too, which the
 * lane holds until then. */
#ifndef LIFECYCLE_FREEZE_H
#define LIFECYCLE_FREEZE_H

#include <stdbool.h>

struct error;
struct instance;

enum { FREEZE_MAX_S = 86400 };

/* For fleet->waits_changed. */
void freeze_waits_changed(struct instance *i, bool any);

/* Something else may have changed whether it is to stand still. */
void freeze_look(struct instance *i);

/* For the lane, while i->job is set. 0: it runs, and does until i->job is NULL. -EAGAIN:
 * lane_ask_again() follows. ERROR_BUSY: it stands still, and does not go on. */
int freeze_let_go(struct instance *i, struct error *e);

/* A sandbox of an earlier daemon may stand still: it goes on, until its worker tells what waits. */
void freeze_recover(struct instance *i);

#endif
