#include "fleet/key_rates.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Finds the key's entry. Removes entries on the way whose buckets are full again. */
static struct key_rate *find(struct key_rates *r, const char *key_id, uint64_t now_ns)
{
	for (unsigned i = 0; i < r->count;) {
		struct key_rate *k = &r->keys[i];

		if (strcmp(k->key_id, key_id) == 0)
			return k;
		if (k->rate.full_at_ns > now_ns)
			i++;
		else
			*k = r->keys[--r->count];
	}
	return NULL;
}

static struct key_rate *add(struct key_rates *r, const char *key_id)
{
	struct key_rate *k = r->count < KEY_RATES_MAX ? &r->keys[r->count++] : NULL;

	if (k) {
		k->rate = (struct rate){0};
		(void)snprintf(k->key_id, sizeof(k->key_id), "%s", key_id); /* fits: an id */
	}
	return k;
}

bool key_rates_take(
	struct key_rates *r, const char *key_id, unsigned per_key, unsigned in_all, uint64_t now_ns)
{
	const char *id = key_id ? key_id : "";
	struct key_rate *k = find(r, id, now_ns);

	assert(in_all <= KEY_RATES_MAX / 2);
	k = k ? k : add(r, id);
	return k && rate_take(&k->rate, per_key, now_ns) && rate_take(&r->all, in_all, now_ns);
}
