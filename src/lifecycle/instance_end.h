/* The end of an instance: by request, at its deadline, or by itself. */
#ifndef LIFECYCLE_INSTANCE_END_H
#define LIFECYCLE_INSTANCE_END_H

#include "fleet/instance.h"
#include "store/events.h"

/* Ends an instance. On return its row says KILLING, so a client can be told; the rest happens
 * later. type is KILLED, TIMED_OUT or CRASHED. */
int instance_end(struct instance *i, enum store_event_type type, struct error *e);
/* Completes instance_end() for an instance that was busy with a lane job. */
void instance_finish_end(struct instance *i);
/* Watches its process. When the process dies, the instance ends as CRASHED. */
int instance_watch(struct instance *i, struct error *e);

#endif
