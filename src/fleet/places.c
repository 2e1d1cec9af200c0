#include "fleet/places.h"

#include <string.h>

#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "fleet/pool.h"

/* VMs of the pool give way. */
int places_take_host(
	struct fleet *f, const struct sandbox_sizes *s, unsigned count, struct error *e)
{
	struct quota *q = &f->quota;
	int r = quota_reserve(q, &f->dirs, s, count, NULL);

	if (r == 0)
		return 0;
	pool_make_room(f->pool, s, count);
	return quota_reserve(q, &f->dirs, s, count, e);
}

int places_reserve(struct fleet *f, struct instance_places *p, struct error *e)
{
	int r = places_take_host(f, &p->sizes, p->count, e);

	if (r < 0)
		p->count = 0;
	p->next = f->places;
	f->places = p;
	return r;
}

void places_give_back(struct fleet *f, struct instance_places *p)
{
	struct instance_places **at = &f->places;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	for (; p->count; p->count--)
		quota_release(&f->quota, &p->sizes);
}

unsigned places_coming(struct fleet *f, const char *key_id)
{
	unsigned n = 0;

	for (const struct instance_places *p = f->places; p; p = p->next)
		if (strcmp(p->key_id, key_id) == 0)
			n += p->count;
	for (struct instance *i = f->other; i; i = i->next)
		if (i->maker && strcmp(i->key_id, key_id) == 0)
			n++;
	return n;
}
