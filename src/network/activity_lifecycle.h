/* The life of a sandbox in its activity: records of the kind "lifecycle". */
#ifndef NETWORK_ACTIVITY_LIFECYCLE_H
#define NETWORK_ACTIVITY_LIFECYCLE_H

struct fleet;
struct store_event;

/* Notes an event. Called as fleet->event_noted. */
void activity_lifecycle(struct fleet *f, const struct store_event *ev);

/* Notes that the sandbox was rolled back to this snapshot. */
void activity_rolled_back(
	struct fleet *f, const char *sandbox_id, const char *key_id, const char *snapshot);

#endif
