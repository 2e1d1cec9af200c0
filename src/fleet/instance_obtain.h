/* Getting hold of a sandbox that may be paused, or on its way between two states. */
#ifndef FLEET_INSTANCE_OBTAIN_H
#define FLEET_INSTANCE_OBTAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "fleet/instance.h"

struct obtaining;

/* Called once, from the loop: the running sandbox, or NULL and why. resumed: it was paused. */
typedef void (*instance_obtained)(
	void *arg, struct instance *i, bool resumed, const struct error *why);

/* What happens at the deadline of one that comes back. */
enum obtain_at_end { OBTAIN_AS_BEFORE, OBTAIN_TO_PAUSE, OBTAIN_TO_KILL };

struct obtain_options {
	bool resume;	     /* a paused one comes back; otherwise that is an error */
	uint64_t timeout_ns; /* then, from the time when it is back; 0: as at its creation */
	bool memory;	     /* false: booted from its disks even if its memory was kept */
	enum obtain_at_end at_end;
	/* Its key's maximum of sandboxes does not count: the operator asks, or it ran a moment ago.
	 */
	bool entitled;
};

/* Waits until the sandbox is running, resuming it where that is asked for. The callback may come
 * before the return; then *ret is NULL. */
void instance_obtain(struct fleet *f, const char *id, const struct obtain_options *o,
	instance_obtained obtained, void *arg, struct obtaining **ret);
/* Nobody waits any more; a resume goes on. */
void obtaining_cancel(struct obtaining *o);

#endif
