/* The end of an instance: by request, at its deadline, or by itself. */
#ifndef FLEET_INSTANCE_END_H
#define FLEET_INSTANCE_END_H

#include "fleet/instance.h"
#include "store/events.h"

/* Its row says KILLING at the return, so that a client can be told; the rest happens later. type is
 * KILLED, TIMED_OUT or CRASHED. */
int instance_end(struct instance *i, enum store_event_type type, struct error *e);
/* The rest of instance_end() of one that was busy. */
void instance_finish_end(struct instance *i);
/* Watches its process; a death ends it as CRASHED. */
int instance_watch(struct instance *i, struct error *e);

#endif
