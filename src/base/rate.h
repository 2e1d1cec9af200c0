/* A token bucket: lets `per_second` events through in a second, in one burst or spread. 0 lets
 * nothing through. */
#ifndef BASE_RATE_H
#define BASE_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct rate {
	uint64_t full_at_ns; /* when the bucket is full again */
};

static inline bool rate_take(struct rate *r, unsigned per_second, uint64_t now_ns)
{
	uint64_t cost = per_second ? NS_PER_S / per_second : 0;
	uint64_t from = r->full_at_ns > now_ns ? r->full_at_ns : now_ns;

	if (!per_second || from - now_ns > NS_PER_S - cost)
		return false;
	r->full_at_ns = from + cost;
	return true;
}

#endif
