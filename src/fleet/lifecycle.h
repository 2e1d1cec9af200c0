/* What happens to instances by time: deadlines, samples of their use, tidying of the store. */
#ifndef FLEET_LIFECYCLE_H
#define FLEET_LIFECYCLE_H

#include "base/error.h"

struct fleet;

int instances_start(struct fleet *f, struct error *e); /* recovers, then runs the timers */
void instances_stop(struct fleet *f); /* lets go of all; those being made are ended */

#endif
