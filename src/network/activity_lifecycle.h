/* The life of a sandbox in its activity: records of the kind "lifecycle". */
#ifndef NETWORK_ACTIVITY_LIFECYCLE_H
#define NETWORK_ACTIVITY_LIFECYCLE_H

struct fleet;
struct store_event;

/* For the fleet's event_noted. */
void activity_lifecycle(struct fleet *f, const struct store_event *ev);

/* The sandbox is as in this snapshot again. */
void activity_rolled_back(
	struct fleet *f, const char *sandbox_id, const char *key_id, const char *snapshot);

#endif
