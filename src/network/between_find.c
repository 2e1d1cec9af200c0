#include "network/between_find.h"

#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "proto/json_tree.h"
#include "store/keys.h"
#include "store/sandboxes.h"

static const char name_key[] = "name";

/* While rows are read. */
struct search {
	struct fleet *fleet;
	struct between_caller *caller;
	uint16_t port;
	struct between_found *found;
	unsigned count;
	bool paused;
};

/* Metadata does not change. */
static const char *caller_name(struct fleet *f, struct between_caller *caller)
{
	struct store_sandbox *row = NULL;
	json_t *metadata;
	const char *name;

	if (!caller->name_known && store_sandbox_get(f->store, caller->id, &row, NULL) == 0) {
		metadata = json_tree_stored(row->metadata_json);
		name = json_string_value(json_object_get(metadata, name_key));
		if (name && strlen(name) < sizeof(caller->name))
			(void)strcpy(caller->name, name); /* fits */
		caller->name_known = true;
		json_decref(metadata);
		store_sandbox_free(row);
	}
	return caller->name[0] ? caller->name : NULL;
}

static int look_at(void *arg, const struct store_sandbox *sb)
{
	struct search *s = arg;
	json_t *network;

	if (s->count++)
		return 0;
	if (strlen(sb->id) >= sizeof(s->found->id))
		return 0; /* never: they are ours */
	network = json_tree_stored(sb->network_json);
	(void)strcpy(s->found->id, sb->id); /* fits */
	s->found->rule =
		network_in_find(network, s->caller->id, caller_name(s->fleet, s->caller), s->port);
	s->paused = sb->state == STORE_PAUSED || sb->state == STORE_PAUSING;
	s->found->resumes = s->paused && instance_traffic_resumes(sb);
	json_decref(network);
	return 0;
}

static void find_id(struct search *s, const char *to)
{
	struct store_sandbox *row = NULL;

	if (strlen(to) >= SANDBOX_ID_BYTES ||
		store_sandbox_get(s->fleet->store, to, &row, NULL) < 0)
		return;
	if (strcmp(row->key_id, s->caller->key_id) == 0 && row->state != STORE_KILLING)
		(void)look_at(s, row); /* always 0 */
	store_sandbox_free(row);
}

static void find_name(struct search *s, const char *to)
{
	const struct store_pair pair = {name_key, to};
	const struct store_sandbox_filter filter = {.key_id = s->caller->key_id,
		.network = true,
		.states = STORE_ANY_STATE & ~STORE_STATE_BIT(STORE_KILLING),
		.metadata = &pair,
		.metadata_count = 1,
		.limit = 2};
	char next[STORE_PAGE_TOKEN_BYTES];

	/* a failure finds none */
	(void)store_sandbox_list(s->fleet->store, &filter, look_at, s, next, NULL);
}

static bool is_revoked(struct fleet *f, const char *key_id)
{
	_cleanup_(store_key_freep) struct store_key *key = NULL;

	return store_key_get(f->store, key_id, &key, NULL) < 0 || key->revoked_ns;
}

const char *between_find(struct fleet *f, struct between_caller *caller, const char *to,
	uint16_t port, struct between_found *ret)
{
	struct search s = {.fleet = f, .caller = caller, .port = port, .found = ret};

	*ret = (struct between_found){.rule = -1};
	find_id(&s, to);
	if (s.count == 0)
		find_name(&s, to);
	if (s.count == 0)
		return "no sandbox of this key has this id or name";
	if (s.count > 1) {
		*ret = (struct between_found){.rule = -1};
		return "several sandboxes have this name: use an id";
	}
	if (ret->rule < 0)
		return network_in_runs_code(port) ? "its allowIn does not name this sandbox with "
						    "this port, where code runs"
						  : "its allowIn does not name this sandbox";
	if (is_revoked(f, caller->key_id))
		return "the API key was revoked";
	return s.paused && !ret->resumes ? "it is paused, and traffic does not resume it" : NULL;
}
