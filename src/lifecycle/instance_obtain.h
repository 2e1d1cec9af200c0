/* Finds a sandbox for a request. If it is paused or changing its state, waits until it runs. */
#ifndef LIFECYCLE_INSTANCE_OBTAIN_H
#define LIFECYCLE_INSTANCE_OBTAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "fleet/instance.h"

struct obtaining;

/* Called once, from the loop, with the running sandbox or with NULL and why. resumed: it was
 * paused. */
typedef void (*instance_obtained)(
	void *arg, struct instance *i, bool resumed, const struct error *why);

/* What happens at the deadline of a resumed sandbox. */
enum obtain_at_end { OBTAIN_AS_BEFORE, OBTAIN_TO_PAUSE, OBTAIN_TO_KILL };

struct obtain_options {
	bool resume;	     /* resume a paused sandbox; otherwise a paused one is an error */
	uint64_t timeout_ns; /* after a resume, from when it is back; 0: as at its creation */
	/* After a resume that was cancelled meanwhile, from when it is back; 0: timeout_ns. */
	uint64_t unwanted_ns;
	bool memory; /* false: boot it from its disks even if its memory was kept */
	enum obtain_at_end at_end;
	/* Ignore the key's maximum of sandboxes: the operator asks, or the sandbox ran a moment
	 * ago. */
	bool entitled;
};

/* Waits until the sandbox is running, and resumes it if the options say so. The callback may come
 * before the return; then *ret is NULL. */
void instance_obtain(struct fleet *f, const char *id, const struct obtain_options *o,
	instance_obtained obtained, void *arg, struct obtaining **ret);
/* Cancels the wait: the callback is not called. A resume in progress goes on, and
 * then obtain_options.unwanted_ns counts. */
void obtaining_cancel(struct obtaining *o);

#endif
