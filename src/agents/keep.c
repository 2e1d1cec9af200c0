#include "agents/keep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agents_internal.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/catalog.h"
#include "catalog/jobs.h"
#include "fleet/fleet.h"
#include "proto/json_tree.h"
#include "store/agent_versions.h"
#include "store/agents.h"
#include "store/builds.h"
#include "store/keys.h"
#include "store/tags.h"

/* --- versions that nothing leads to --- */

struct old_version {
	uint32_t number;
	char build_id[STORE_UUID_BYTES];
};

struct survey {
	struct fleet *fleet;
	struct store_agent agent;
	json_t *named; /* versions that aliases name, as keys */
	unsigned spare;
	struct old_version *old; /* owned */
	size_t old_count;
};

static int note_alias(void *arg, const char *alias, const char *weights_json)
{
	struct survey *s = arg;
	json_t *weights = json_tree_stored(weights_json);
	int r = weights ? json_object_update(s->named, weights) : -1;

	json_decref(weights);
	return r < 0 ? -ENOMEM : 0;
}

static bool must_stay(struct survey *s, const struct store_agent_version *v)
{
	char number[16];

	(void)snprintf(number, sizeof(number), "%u", v->number); /* fits */
	return v->number == s->agent.current || json_object_get(s->named, number) ||
	       agents_is_held(s->fleet, v->build_id);
}

static int note_version(void *arg, const struct store_agent_version *v)
{
	struct survey *s = arg;
	struct old_version *more;

	if (v->state != STORE_AGENT_READY || must_stay(s, v) || s->spare++ < AGENT_READY_KEPT)
		return 0;
	more = array_grow(s->old, s->old_count, sizeof(*more));
	if (!more)
		return -ENOMEM;
	s->old = more;
	more += s->old_count++;
	more->number = v->number;
	memcpy(more->build_id, v->build_id, sizeof(more->build_id));
	return 0;
}

static int retire(struct fleet *f, const char *agent_id, const struct old_version *v)
{
	struct store *s = f->store;
	char tag[16];
	int r = store_begin(s, NULL);

	(void)snprintf(tag, sizeof(tag), "v%u", v->number); /* fits */
	if (r == 0)
		r = store_agent_version_end(s, agent_id, v->number, STORE_AGENT_RETIRED,
			clock_realtime_ns(), "newer versions replaced it", "", NULL);
	if (r == 0)
		r = store_tag_remove(s, agent_id, tag, NULL);
	if (r == 0)
		r = store_commit(s, NULL);
	if (r == 0)
		catalog_drop_later(f, v->build_id);
	else
		store_rollback(s);
	return r;
}

void agents_tidy(struct fleet *f, const char *agent_id)
{
	struct survey s = {.fleet = f, .named = json_object()};
	int r = s.named ? store_agent_get(f->store, agent_id, &s.agent, NULL) : -ENOMEM;

	if (r == 0)
		r = store_agent_alias_list(f->store, agent_id, note_alias, &s, NULL);
	if (r == 0)
		r = store_agent_version_list(
			f->store, agent_id, 0, UINT32_MAX, note_version, &s, NULL);
	for (size_t i = 0; i < s.old_count && r == 0; i++)
		r = retire(f, agent_id, &s.old[i]);
	if (r < 0 && r != -ENOENT)
		log_debug("old versions of an agent stay for now: %d agent=%s", r, agent_id);
	json_decref(s.named);
	free(s.old);
}

void agents_unused(struct fleet *f, const char *build_id)
{
	struct store_agent_version *v = malloc(sizeof(*v));
	struct error why = {0};
	int r = v ? store_agent_version_of_build(f->store, build_id, v, &why) : -ENOMEM;

	if (r == 0)
		agents_tidy(f, v->agent_id);
	else if (why.code == ERROR_NOT_FOUND)
		catalog_drop(f, build_id); /* its agent was removed meanwhile */
	free(v);
}

/* --- an agent's end --- */

static int note_build(void *arg, const struct store_agent_version *v)
{
	struct survey *s = arg;
	struct old_version *more = array_grow(s->old, s->old_count, sizeof(*more));

	if (!more)
		return -ENOMEM;
	s->old = more;
	more += s->old_count++;
	memcpy(more->build_id, v->build_id, sizeof(more->build_id));
	return 0;
}

int agents_remove(struct fleet *f, const char *agent_id, struct error *e)
{
	struct survey s = {.fleet = f};
	int r = store_agent_version_list(f->store, agent_id, 0, UINT32_MAX, note_build, &s, e);

	if (r < 0)
		(void)error_set(e, ERROR_NO_SPACE, -r, "out of memory"); /* unless already set */
	else
		r = store_agent_remove(f->store, agent_id, e);
	if (r == 0)
		jobs_cancel(f, agent_id);
	for (size_t i = 0; i < s.old_count && r == 0; i++)
		if (!agents_is_held(f, s.old[i].build_id))
			catalog_drop(f, s.old[i].build_id);
	free(s.old);
	return r;
}

/* --- revoked keys --- */

struct doomed {
	struct fleet *fleet;
	char (*ids)[STORE_TEMPLATE_ID_BYTES]; /* owned */
	size_t count;
	bool revoked_only;
};

static bool is_revoked(struct fleet *f, const char *key_id)
{
	_cleanup_(store_key_freep) struct store_key *key = NULL;

	return store_key_get(f->store, key_id, &key, NULL) == 0 && key->revoked_ns;
}

static int note_agent(void *arg, const struct store_agent *a)
{
	struct doomed *d = arg;
	void *more;

	if (d->revoked_only && !is_revoked(d->fleet, a->key_id))
		return 0;
	more = array_grow(d->ids, d->count, sizeof(*d->ids));
	if (!more)
		return -ENOMEM;
	d->ids = more;
	memcpy(d->ids[d->count++], a->id, sizeof(a->id));
	return 0;
}

/* Removing changes the list, so it is read first. */
static void remove_all(struct fleet *f, const char *key_id)
{
	struct doomed d = {.fleet = f, .revoked_only = !key_id};
	struct error e = {0};
	int r = store_agent_list(f->store, key_id, note_agent, &d, &e);

	for (size_t i = 0; i < d.count && r == 0; i++)
		r = agents_remove(f, d.ids[i], &e);
	if (r < 0)
		log_error("cannot remove agents of a revoked key: %s", e.message);
	free(d.ids);
}

void agents_remove_key(struct fleet *f, const char *key_id)
{
	remove_all(f, key_id);
}

void agents_remove_revoked(struct fleet *f)
{
	remove_all(f, NULL);
}
