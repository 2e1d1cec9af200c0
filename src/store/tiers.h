/* Tiers: how much use a month includes, what further use costs, and whether use stops there. No
 * tier applies until the operator makes one and gives it to a key (store_key_set_limits). */
#ifndef STORE_TIERS_H
#define STORE_TIERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"
#include "store/usage.h"

enum { STORE_CURRENCY_MAX = 16 };

struct store_tier {
	const char *name;
	uint64_t included_minutes;	  /* of uptime per calendar month */
	uint64_t price_micros_per_minute; /* beyond the included ones; in millionths of the
					   * operator's currency */
	const char *currency;		  /* a word for people; "": none; put accepts NULL for "" */
	bool hard_stop;			  /* no sandbox may run after the included minutes are
					   * used */
};

/* Synced, both. Put inserts or replaces. Remove is -EBUSY while keys have the tier. */
int store_tier_put(struct store *s, const struct store_tier *t, struct error *e);
int store_tier_remove(struct store *s, const char *name, struct error *e);
int store_tier_list(struct store *s, int (*each)(void *arg, const struct store_tier *t), void *arg,
	struct error *e);

/* A key's month against its tier. A key without a tier has no limit and no price. */
struct store_bill {
	struct store_counters used;
	uint64_t minutes; /* of uptime; a started minute counts */
	uint64_t included_minutes;
	uint64_t charge_micros; /* saturates */
	bool has_tier;
	bool hard_stop;
	bool stopped;	  /* the hard stop is reached: refuse new sandboxes, end running ones */
	uint64_t left_us; /* uptime left until then; UINT64_MAX without a hard stop */
	char tier[STORE_NAME_MAX + 1], currency[STORE_CURRENCY_MAX + 1];
};
int store_usage_bill(struct store *s, const char *key_id, uint64_t at_ns, struct store_bill *ret,
	struct error *e);

/* Lists keys that have a running sandbox and a tier with a hard stop. */
int store_tier_stopping_keys(
	struct store *s, int (*each)(void *arg, const char *key_id), void *arg, struct error *e);

#endif
