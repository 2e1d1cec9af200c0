/* The clock that approvals expire by. They wait for as long as they say, whatever the wall clock is
 * set to meanwhile: when it is set, their ends move with it, and stay times of the wall clock. Time
 * in which this machine sleeps counts. What happens to the clock while no daemon runs is not
 * noticed; then an approval waits no longer than any may, from the daemon's start. */
#ifndef NETWORK_APPROVAL_CLOCK_H
#define NETWORK_APPROVAL_CLOCK_H

#include <stdint.h>

#include "base/clock.h"

struct store;

/* The wall clock, and CLOCK_BOOTTIME before and after it was read. */
struct approval_times {
	uint64_t before_ns, wall_ns, after_ns;
};

struct approval_clock {
	uint64_t ahead_ns; /* the wall clock is ahead of CLOCK_BOOTTIME, modulo 2^64 */
};

/* Changes that are smaller are no steps; they add up to one. */
#define APPROVAL_CLOCK_STEP_NS ((int64_t)NS_PER_S)

/* By how much the wall clock was set at least; 0: not at all. */
int64_t approval_clock_step(const struct approval_clock *c, const struct approval_times *t);

/* The daemon starts. */
void approval_clock_start(struct approval_clock *c, struct store *s);

/* The time. Moves the ends of what waits, if the clock was set since the last call. */
uint64_t approval_clock_now(struct approval_clock *c, struct store *s);

#endif
