#include "fleet/limits.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "fleet/fleet.h"
#include "fleet/places.h"
#include "store/sandboxes.h"

#define MIB (UINT64_C(1) << 20)

static uint64_t choose(uint64_t own, uint64_t daemons)
{
	return own ? own : daemons;
}

/* 0 means no limit, so then the ceiling is the limit. */
static uint64_t at_most(uint64_t v, uint64_t ceiling)
{
	return v && v < ceiling ? v : ceiling;
}

struct store_limits limits_effective(const struct fleet *f, const struct store_limits *own)
{
	const struct fleet_options *o = &f->options;
	struct store_limits l = *own;

	l.max_sandboxes = (uint32_t)choose(own->max_sandboxes, o->sandboxes_max);
	l.creates_per_minute = (uint32_t)choose(own->creates_per_minute, o->creates_per_minute);
	l.max_cpus = (uint32_t)at_most(choose(own->max_cpus, o->sizes_max.cpus), SANDBOX_CPUS_MAX);
	l.max_memory_bytes = at_most(choose(own->max_memory_bytes, o->sizes_max.memory_bytes),
		SANDBOX_MEMORY_MB_MAX * MIB);
	/* an operator may give one key more than the usual largest disk, as templates may have */
	l.max_disk_bytes = choose(own->max_disk_bytes, o->sizes_max.disk_bytes);
	if (!l.max_disk_bytes)
		l.max_disk_bytes = SANDBOX_DISK_MB_MAX * MIB;
	l.max_timeout_ns = choose(own->max_timeout_ns, o->timeout_max_ns);
	l.max_kept = (uint32_t)choose(own->max_kept, o->kept.key_count);
	l.max_kept_bytes = choose(own->max_kept_bytes, o->kept.key_bytes);
	return l;
}

int limits_of_key(struct fleet *f, const char *key_id, struct store_limits *ret, struct error *e)
{
	_cleanup_(store_key_freep) struct store_key *key = NULL;
	int r = store_key_get(f->store, key_id, &key, e);

	if (r < 0)
		return r;
	*ret = limits_effective(f, &key->limits);
	ret->tier = ret->network = NULL; /* they are freed with the row */
	return 0;
}

struct sandbox_sizes limits_sizes(const struct store_limits *l)
{
	return (struct sandbox_sizes){l->max_cpus, l->max_memory_bytes, l->max_disk_bytes};
}

/* 0 means no limit. */
static bool is_within(uint64_t v, uint64_t max)
{
	return !max || (v && v <= max);
}

static bool numbers_are_within(const struct store_limits *l, const struct store_limits *max)
{
	return is_within(l->max_sandboxes, max->max_sandboxes) &&
	       is_within(l->creates_per_minute, max->creates_per_minute) &&
	       is_within(l->max_cpus, max->max_cpus) &&
	       is_within(l->max_memory_bytes, max->max_memory_bytes) &&
	       is_within(l->max_disk_bytes, max->max_disk_bytes) &&
	       is_within(l->max_timeout_ns, max->max_timeout_ns) &&
	       is_within(l->max_kept, max->max_kept) &&
	       is_within(l->max_kept_bytes, max->max_kept_bytes);
}

bool limits_are_within(
	const struct fleet *f, const struct store_limits *l, const struct store_limits *max)
{
	const struct store_limits a = limits_effective(f, l), b = limits_effective(f, max);

	/* nobody can say which of two tiers is more */
	if (!l->tier != !max->tier || (l->tier && strcmp(l->tier, max->tier) != 0))
		return false;
	/* nor which of two lists. But no list means no limit, which is more than any list, and any
	 * list is more than "off" */
	if (max->network && (!l->network || (strcmp(l->network, max->network) != 0 &&
						    strcmp(l->network, "off") != 0)))
		return false;
	return !l->manages_keys && numbers_are_within(&a, &b) && numbers_are_within(l, max);
}

int limits_check_places(struct fleet *f, const char *key_id, unsigned count, struct error *e)
{
	struct store_limits l;
	uint64_t alive = 0;
	int r = 0;

	if (strcmp(key_id, STORE_KEY_LOCAL) == 0)
		return 0;
	r = limits_of_key(f, key_id, &l, e);
	if (r == 0)
		r = store_sandbox_count(f->store, key_id,
			STORE_STATE_BIT(STORE_RUNNING) | STORE_STATE_BIT(STORE_PAUSING) |
				STORE_STATE_BIT(STORE_SNAPSHOTTING),
			&alive, e);
	if (r == 0 && l.max_sandboxes && alive + places_coming(f, key_id) + count > l.max_sandboxes)
		r = error_set(e, ERROR_TOO_MANY, EMFILE,
			"you have reached the maximum number of concurrent E2B sandboxes (%u): "
			"kill "
			"one, or ask for a higher limit",
			l.max_sandboxes);
	return r;
}
