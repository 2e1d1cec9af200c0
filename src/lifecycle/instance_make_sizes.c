/* Determines the sizes of a sandbox to be made, and takes its place on the host. */
#include <errno.h>
#include <stdio.h>

#include "base/str.h"
#include "fleet/fleet.h"
#include "fleet/places.h"
#include "fleet/pool.h"
#include "lifecycle/instance_make_internal.h"
#include "store/sandboxes.h"

#define MEMORY_STEP (UINT64_C(128) << 20)

/* Checks the sizes of a new sandbox against the limits of its key. */
static int check_max(const struct instance_order *o, const struct sandbox_sizes *s, struct error *e)
{
	char have[16], may[16];

	if (o->origin && (s->cpus > o->max.cpus || s->memory_bytes > o->max.memory_bytes ||
				 s->disk_bytes > o->max.disk_bytes))
		return error_set(e, ERROR_LIMIT, ERANGE,
			"it has %u CPUs and %s of memory, more than this key may have now: ask for "
			"a "
			"higher limit",
			s->cpus, str_format_bytes(s->memory_bytes, have));

	if (s->cpus > o->max.cpus)
		return error_set(e, ERROR_LIMIT, ERANGE,
			"template '%s' has %u CPUs and this key's maximum is %u: give cpuCount",
			o->template, s->cpus, o->max.cpus);
	if (s->memory_bytes > o->max.memory_bytes)
		return error_set(e, ERROR_LIMIT, ERANGE,
			"template '%s' has %s of memory and this key's maximum is %s: give "
			"memoryMB",
			o->template, str_format_bytes(s->memory_bytes, have),
			str_format_bytes(o->max.memory_bytes, may));
	if (s->disk_bytes > o->max.disk_bytes)
		return error_set(e, ERROR_LIMIT, ERANGE,
			"template '%s' has a disk of %s and this key's maximum is %s: use a "
			"smaller "
			"template",
			o->template, str_format_bytes(s->disk_bytes, have),
			str_format_bytes(o->max.disk_bytes, may));
	return 0;
}

static int reserve(struct instance *i, const struct sandbox_sizes *s, struct error *e)
{
	int r = places_take_host(i->fleet, s, 1, e);

	if (r == 0)
		i->promised = *s;
	return r;
}

/* Claims a VM of the pool with its place on the host, or else takes a place. */
static int claim(struct instance *i, const struct stock_key *k, bool usual, struct error *e)
{
	if (!pool_claim(i->fleet->pool, k, usual, &i->sandbox))
		return reserve(i, &k->sizes, e);
	i->promised = k->sizes;
	return 0;
}

/* A paused sandbox keeps its sizes, since they were allowed once. A new one is checked again: its
 * key's limits may have been lowered since. */
static int reserve_again(struct instance *i, const struct instance_order *o, struct error *e)
{
	const struct store_sandbox *row = o->paused;
	const struct stock_key k = {
		.template = o->template,
		.snapshot = o->snapshot_id,
		.sizes.cpus = row ? row->cpus : o->cpus,
		.sizes.memory_bytes = row ? row->memory_bytes : o->memory_bytes,
		.sizes.disk_bytes = row ? row->disk_bytes : o->disk_bytes,
	};
	const char *id = row ? row->template_id : o->template_id;
	const char *build = row ? row->build_id : o->build_id;

	(void)snprintf(i->template.id, sizeof(i->template.id), "%s", id); /* from the store: fits */
	(void)snprintf(i->template.build_id, sizeof(i->template.build_id), "%s",
		build ? build : ""); /* as above */
	if (!row && !o->look && check_max(o, &k.sizes, e) < 0)
		return -e->err;
	if (o->places)
		return 0; /* taken once nothing can fail any more */
	return k.snapshot ? claim(i, &k, true, e) : reserve(i, &k.sizes, e);
}

/* Before anything is made, stores the sizes in the order and takes a place on the host. */
static int admit(struct instance *i, struct instance_order *o, struct error *e)
{
	struct fleet *f = i->fleet;
	const struct sandbox_options so = {.template = o->template,
		.cpus = o->cpus,
		.memory_bytes = o->memory_bytes,
		.disk_bytes = o->disk_bytes};
	struct stock_key k = {.template = o->template};
	bool usual = !o->cpus && !o->memory_bytes && !o->disk_bytes;
	int r = f->options.backend->measure(&f->home, &so, &k.sizes, &k.made_s, e);

	if (r == 0)
		r = check_max(o, &k.sizes, e);
	if (r == 0)
		r = store_template_see(f->store, o->template, k.made_s, &i->template, e);
	if (r == 0)
		r = claim(i, &k, usual, e);
	if (r < 0)
		return r;
	o->cpus = k.sizes.cpus;
	o->memory_bytes = k.sizes.memory_bytes;
	o->disk_bytes = k.sizes.disk_bytes;
	return 0;
}

/* A template must boot once for sizes that it has no snapshot for. So sizes come in steps, and only
 * few new ones at a time. */
int instance_make_check_boot(struct fleet *f, const struct instance_order *o, struct error *e)
{
	if (o->memory_bytes % MEMORY_STEP)
		return error_set(e, ERROR_LIMIT, EINVAL,
			"memoryMB must be a multiple of %d, or the template's own",
			(int)(MEMORY_STEP >> 20));
	if (lane_count_of(&f->boots, o->key_id) >= BOOTS_KEY_WAITING)
		return error_set(e, ERROR_TOO_MANY, EBUSY,
			"%d sandboxes of this key wait for a template to be booted with their "
			"sizes: "
			"try again when they are there",
			BOOTS_KEY_WAITING);
	return 0;
}

bool instance_make_must_boot(const struct fleet *f, const struct instance_order *o)
{
	const struct backend *b = f->options.backend;
	const struct sandbox_options so = {.template = o->template,
		.cpus = o->cpus,
		.memory_bytes = o->memory_bytes,
		.disk_bytes = o->disk_bytes};

	return !o->origin && b->must_boot && b->must_boot(&f->home, &so);
}

int instance_make_take_place(struct instance *i, struct instance_order *o, struct error *e)
{
	return o->origin ? reserve_again(i, o, e) : admit(i, o, e);
}
