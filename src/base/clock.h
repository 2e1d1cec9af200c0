/* Clocks in nanoseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

static inline uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts); /* cannot fail for the clocks below */
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t clock_realtime_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

/* Timeout for poll() that ends shortly after `until_ns` on the monotonic clock; at most max
 * milliseconds. */
static inline int clock_ms_until(uint64_t until_ns, int max)
{
	uint64_t now = clock_monotonic_ns();

	if (until_ns <= now)
		return 0;
	return until_ns - now < (uint64_t)max * NS_PER_MS ? (int)((until_ns - now) / NS_PER_MS) + 1
							  : max;
}

#endif
