/* Token buckets (base/rate.h) of API keys and of the host, for work that keys can ask for at any
 * speed.
 *
 * Only a bucket that is not full has an entry, and only for the second or less that it takes to
 * fill. So the host's rate bounds the number of entries: KEY_RATES_MAX is enough for
 * KEY_RATES_MAX / 2 events a second. */
#ifndef FLEET_KEY_RATES_H
#define FLEET_KEY_RATES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rate.h"
#include "store/store.h"

enum { KEY_RATES_MAX = 2048 };

/* All zero at first. */
struct key_rates {
	struct rate all;
	unsigned count;
	struct key_rate {
		struct rate rate;
		char key_id[STORE_ID_MAX + 1];
	} keys[KEY_RATES_MAX];
};

/* Whether one more event of this key may happen now. key_id NULL: the operator, who counts as a
 * key. in_all: of all keys, at most KEY_RATES_MAX / 2. */
bool key_rates_take(struct key_rates *r, const char *key_id, unsigned per_key, unsigned in_all,
	uint64_t now_ns);

#endif
