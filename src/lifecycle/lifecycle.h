/* The start and the end of a fleet, and what happens to instances in between: deadlines, samples of
 * their usage, maintenance of the store. */
#ifndef LIFECYCLE_LIFECYCLE_H
#define LIFECYCLE_LIFECYCLE_H

#include "base/error.h"

struct fleet;

int instances_start(struct fleet *f, struct error *e); /* recovers, then runs the timers */
void instances_stop(struct fleet *f); /* releases all running ones; ends those being made */

#endif
