/* The next deadline of all sandboxes: one timer. */
#ifndef FLEET_DEADLINE_H
#define FLEET_DEADLINE_H

struct fleet;

/* To be called whenever a deadline in the store has changed: sets the timer anew. What is done when
 * it is over, f->on_deadline says (lifecycle.h). */
void deadline_changed(struct fleet *f);
/* After an error of the store. */
void deadline_retry(struct fleet *f);

#endif
