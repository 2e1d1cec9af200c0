/* Freezes sandboxes while a person is asked (docs/consent.md).
 *
 * If a sandbox's network asks for it, the sandbox's CPUs are stopped while one or more of its flows
 * wait for a decision. Its monotonic clock stands still, and so does its time to live. When no flow
 * waits any more, the sandbox goes on and is told the time. It also goes on after FREEZE_MAX_S,
 * although flows still wait. A pause or snapshot needs a running guest, so the lane holds the job
 * until the sandbox goes on. A change that fails is tried again. */
#ifndef LIFECYCLE_FREEZE_H
#define LIFECYCLE_FREEZE_H

#include <stdbool.h>

struct error;
struct instance;

enum { FREEZE_MAX_S = 86400 };

/* For fleet->waits_changed. */
void freeze_waits_changed(struct instance *i, bool any, bool requests);

/* Freezes the sandbox or lets it go on, as it should be now. Call it when something other than its
 * flows has changed. */
void freeze_look(struct instance *i);

/* For the `admit` of a lane's job, while i->job is set. 0: the sandbox runs, and will until i->job
 * is NULL. -EAGAIN: not yet; lane_ask_again() follows. ERROR_BUSY: it is frozen and could not be
 * made to go on. */
int freeze_let_go(struct instance *i, struct error *e);

/* For a sandbox of an earlier daemon, which may be frozen. Lets it go on until its worker reports
 * which flows wait. */
void freeze_recover(struct instance *i);

#endif
