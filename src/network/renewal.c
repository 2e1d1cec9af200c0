#include "network/renewal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "fleet/turns.h"
#include "network/network.h"

struct change {
	struct change *next;
	uint64_t round;	   /* those of lower ones are served first */
	char *key_id;	   /* "": all keys */
	char *name;	   /* of a secret, or of the approval that was decided */
	char *template_id; /* of a decision; NULL: a secret */
};

/* Exists while there is a change. */
struct renewal {
	struct fleet *fleet;
	struct turn turn;
	struct change *first; /* is being served, if ids is not NULL */
	uint64_t round;	      /* that is being served, or was last */
	char (*ids)[STORE_ID_MAX + 1];
	unsigned count, at;
};

static void free_change(struct change *c)
{
	free(c->key_id);
	free(c->name);
	free(c->template_id);
	free(c);
}

/* --- the sandboxes of a key --- */

/* Skips sandboxes without a worker: a worker that starts later gets the present values. */
static bool is_told(const struct instance *i)
{
	return i->state == INSTANCE_RUNNING ||
	       i->state == INSTANCE_PAUSING || /* a failed pause lets it go on */
	       (i->egress && i->state == INSTANCE_CREATING);
}

static bool is_about(const struct change *c, const struct instance *i)
{
	if (c->key_id[0] && strcmp(i->key_id, c->key_id) != 0)
		return false;
	if (c->template_id)
		return strcmp(instance_template_id(i), c->template_id) == 0;
	return i->authority || !c->name[0];
}

static int note(struct instance *i, void *arg)
{
	struct renewal *r = arg;

	if (is_told(i) && is_about(r->first, i)) {
		if (r->ids)
			(void)snprintf(r->ids[r->count], sizeof(r->ids[0]), "%s",
				i->sandbox.id); /* fits */
		r->count++;
	}
	return 0;
}

static void note_all(struct renewal *r)
{
	r->count = 0;
	(void)instance_each(r->fleet, note, r); /* none ends it early */
	for (struct instance *i = r->fleet->other; i; i = i->next)
		(void)note(i, r); /* likewise */
}

/* Returns whether there was memory. */
static bool collect(struct renewal *r)
{
	if (r->first->round > r->round)
		r->round = r->first->round;
	note_all(r); /* counts */
	r->ids = calloc(r->count + 1, sizeof(r->ids[0]));
	r->at = 0;
	if (r->ids)
		note_all(r);
	return r->ids;
}

static struct instance *find(struct fleet *f, const char *id)
{
	struct instance *i = instance_find(f, id);

	if (i)
		return i;
	for (i = f->other; i && strcmp(i->sandbox.id, id) != 0; i = i->next)
		;
	return i && is_told(i) ? i : NULL;
}

/* --- turns --- */

static void next_change(struct renewal *r)
{
	struct change *c = r->first;

	r->first = c->next;
	free_change(c);
	free(r->ids);
	r->ids = NULL;
	if (!r->first)
		renewal_stop(r->fleet);
}

/* A share: one sandbox, or the list of them. */
static void serve(struct turn *t)
{
	struct renewal *r = t->arg;
	struct instance *i;

	turn_ask(t);
	if (!r->ids) {
		if (!collect(r)) {
			log_error("running sandboxes keep the older value of a secret: out of "
				  "memory");
			next_change(r);
		}
		return;
	}
	if (r->at == r->count) {
		next_change(r);
		return;
	}
	i = find(r->fleet, r->ids[r->at++]);
	if (i && r->first->template_id)
		network_decided(i, r->first->name);
	else if (i)
		network_renew(i, r->first->name);
}

/* --- beginning --- */

/* template_id: NULL, if it is about a secret. */
static struct change *new_change(const char *key_id, const char *name, const char *template_id)
{
	struct change *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->key_id = strdup(key_id);
	c->name = strdup(name);
	c->template_id = template_id ? strdup(template_id) : NULL;
	if (c->key_id && c->name && !c->template_id == !template_id)
		return c;
	free_change(c);
	return NULL;
}

static struct renewal *start(struct fleet *f)
{
	struct renewal *r = calloc(1, sizeof(*r));

	if (r && turn_join(&r->turn, f->loop, serve, r) == 0) {
		r->fleet = f;
		return r;
	}
	free(r);
	return NULL;
}

/* The change that is being served does not count, because it may have passed a sandbox already. */
static bool is_noted(const struct renewal *r, const struct change *c)
{
	const struct change *o = r->ids ? r->first->next : r->first;

	while (o && (strcmp(o->key_id, c->key_id) != 0 || strcmp(o->name, c->name) != 0))
		o = o->next;
	return o;
}

/* In each round every key has one change of its secrets. Changes that may end access come before
 * all rounds. */
static uint64_t round_of(const struct renewal *r, const struct change *c)
{
	uint64_t round = r->round ? r->round : 1;

	if (!c->name[0])
		return 0;
	for (const struct change *o = r->first; o; o = o->next)
		if (o->round >= round && strcmp(o->key_id, c->key_id) == 0)
			round = o->round + 1;
	return round;
}

static void line_up(struct renewal *r, struct change *c)
{
	struct change **at = r->ids ? &r->first->next : &r->first;

	c->round = round_of(r, c);
	while (*at && (*at)->round <= c->round)
		at = &(*at)->next;
	c->next = *at;
	*at = c;
}

static void begin(struct fleet *f, const char *key_id, const char *name, const char *template_id)
{
	struct renewal *r = f->renewal ? f->renewal : start(f);
	struct change *c = r ? new_change(key_id, name, template_id) : NULL;

	f->renewal = r;
	if (!c) {
		log_error("running sandboxes keep the older value of a secret: out of memory");
		if (r && !r->first)
			renewal_stop(f);
		return;
	}
	if (is_noted(r, c))
		free_change(c);
	else
		line_up(r, c);
	turn_ask(&r->turn);
}

void renewal_begin(struct fleet *f, const char *key_id, const char *name)
{
	begin(f, key_id, name, NULL);
}

void renewal_begin_all(struct fleet *f)
{
	begin(f, "", "", NULL);
}

void renewal_begin_decision(
	struct fleet *f, const char *key_id, const char *template_id, const char *approval_id)
{
	begin(f, key_id, approval_id, template_id);
}

void renewal_stop(struct fleet *f)
{
	struct renewal *r = f->renewal;

	if (!r)
		return;
	f->renewal = NULL;
	turn_leave(&r->turn);
	for (struct change *c = r->first, *next; c; c = next) {
		next = c->next;
		free_change(c);
	}
	free(r->ids);
	free(r);
}
