/* Sandboxes that are paused to disk while a person is asked (docs/consent.md): `whileWaiting` is
 * `pause`, and they have stood still (freeze.h) for `pauseAfter` seconds. When nothing of one waits
 * for a decision any more it is resumed, and its connections are asked for again.
 *
 * A request within a connection would not survive a pause: while one waits, the sandbox only stands
 * still. A sandbox that a client paused is not resumed. */
#ifndef LIFECYCLE_WAIT_PAUSE_H
#define LIFECYCLE_WAIT_PAUSE_H

struct fleet;
struct instance;

/* For fleet->stands_still. */
void wait_pause_look(struct instance *i);

/* For fleet->approval_over. */
void wait_pause_decided(struct fleet *f, const char *id);

/* Resumes those whose last decision an earlier daemon took. One that cannot be resumed now, as for
 * want of a place, is tried again. */
void wait_pause_recover(struct fleet *f);

#endif
