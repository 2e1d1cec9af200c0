/* One timer for the next deadline of all sandboxes. */
#ifndef FLEET_DEADLINE_H
#define FLEET_DEADLINE_H

struct fleet;

/* Sets the timer anew; call it whenever a deadline in the store changes. When the timer expires it
 * calls f->on_deadline (lifecycle.c). */
void deadline_changed(struct fleet *f);
/* Tries again soon, after a store error. */
void deadline_retry(struct fleet *f);

#endif
