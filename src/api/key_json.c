#include "api/key_json.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "policy/network_list.h"
#include "store/kept.h"

#define MIB (UINT64_C(1) << 20)

/* The numbers of struct store_limits, with their JSON names and units. */
static const struct limit {
	const char *name;
	size_t offset, bytes;
	uint64_t unit;
} limits[] = {
	{"maxSandboxes", offsetof(struct store_limits, max_sandboxes), 4, 1},
	{"createsPerMinute", offsetof(struct store_limits, creates_per_minute), 4, 1},
	{"maxCpus", offsetof(struct store_limits, max_cpus), 4, 1},
	{"maxMemoryMB", offsetof(struct store_limits, max_memory_bytes), 8, MIB},
	{"maxDiskMB", offsetof(struct store_limits, max_disk_bytes), 8, MIB},
	{"maxKept", offsetof(struct store_limits, max_kept), 4, 1},
	{"maxKeptMB", offsetof(struct store_limits, max_kept_bytes), 8, MIB},
	{"maxTimeout", offsetof(struct store_limits, max_timeout_ns), 8, NS_PER_S},
};

static uint64_t get(const struct store_limits *l, const struct limit *which)
{
	const char *p = (const char *)l + which->offset;
	uint32_t v32;
	uint64_t v64;

	memcpy(&v32, p, sizeof(v32));
	if (which->bytes == sizeof(v32))
		return v32;
	memcpy(&v64, p, sizeof(v64));
	return v64 / which->unit;
}

static void set(struct store_limits *l, const struct limit *which, uint32_t v)
{
	char *p = (char *)l + which->offset;
	uint64_t v64 = v * which->unit;

	if (which->bytes == sizeof(v))
		memcpy(p, &v, sizeof(v));
	else
		memcpy(p, &v64, sizeof(v64));
}

/* "on" and null are the same: no limit. */
static int take_network(const json_t *v, struct store_limits *l, struct error *e)
{
	const char *text = json_string_value(v);

	if (v && !text && !json_is_null(v))
		return error_set(e, ERROR_USAGE, EINVAL,
			"network must be \"off\", \"on\" or names and addresses with commas "
			"between "
			"them");
	if (text && strcmp(text, "on") != 0 && network_list_check(text, "network", e) < 0)
		return -EINVAL;
	if (v)
		l->network = text && *text && strcmp(text, "on") != 0 ? text : NULL;
	return 0;
}

int key_limits_take(const json_t *body, struct store_limits *l, struct error *e)
{
	const json_t *v;

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		v = json_object_get(body, limits[i].name);
		if (!v || json_is_null(v))
			continue;
		if (!json_is_integer(v) || json_integer_value(v) < 0 ||
			json_integer_value(v) > INT32_MAX)
			return error_set(e, ERROR_USAGE, EINVAL, "%s must be a number from 0 to %d",
				limits[i].name, INT32_MAX);
		set(l, &limits[i], (uint32_t)json_integer_value(v));
	}
	v = json_object_get(body, "tier");
	if (v && !json_is_string(v) && !json_is_null(v))
		return error_set(e, ERROR_USAGE, EINVAL, "tier must be a name or null");
	if (v)
		l->tier = json_string_value(v);
	if (take_network(json_object_get(body, "network"), l, e) < 0)
		return -EINVAL;
	v = json_object_get(body, "managesKeys");
	if (v && !json_is_boolean(v) && !json_is_null(v))
		return error_set(e, ERROR_USAGE, EINVAL, "managesKeys must be true or false");
	if (json_is_boolean(v))
		l->manages_keys = json_is_true(v);
	return 0;
}

static void add_limits(json_t *root, const struct store_key *k)
{
	json_t *object = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		(void)json_object_set_new(object, limits[i].name,
			json_integer((json_int_t)get(&k->limits, &limits[i])));
	(void)json_object_set_new(
		object, "tier", k->limits.tier ? json_string(k->limits.tier) : json_null());
	(void)json_object_set_new(object, "managesKeys", json_boolean(k->limits.manages_keys));
	(void)json_object_set_new(object, "network",
		k->limits.network ? json_string(k->limits.network) : json_null());
	/* a field that cannot be added is missing */
	(void)json_object_set_new(root, "limits", object);
	(void)json_object_set_new(root, "teamID", json_string(k->team_id));
	(void)json_object_set_new(
		root, "madeBy", k->made_by ? json_string(k->made_by) : json_null());
}

static json_t *kept_json(struct store *s, const char *key_id)
{
	struct store_kept kept;

	if (store_kept_count(s, key_id, &kept, NULL) < 0)
		return json_null();
	return json_pack(
		"{s:I, s:I}", "count", (json_int_t)kept.count, "sizeBytes", (json_int_t)kept.bytes);
}

json_t *key_json(const struct store_key *k, bool for_operator)
{
	json_t *root = json_pack("{s:s, s:s, s:o, s:o, s:{s:s, s:i, s:s, s:s}}", "id", k->id,
		"name", k->name, "createdAt", api_time(k->created_ns), "lastUsed",
		k->last_used_ns ? api_time(k->last_used_ns) : json_null(), "mask", "prefix",
		k->mask_prefix, "valueLength", (int)k->mask_value_length, "maskedValuePrefix",
		k->mask_first, "maskedValueSuffix", k->mask_last);

	if (root && for_operator)
		add_limits(root, k);
	return root;
}

/* Without a secret: only the key's holder has it. */
json_t *team_json(const struct store_team *t, bool is_default)
{
	return json_pack("{s:s, s:s, s:s, s:b}", "teamID", t->id, "name", t->name, "apiKey", "",
		"isDefault", is_default);
}

/* The store only says that something is missing. */
static int no_such_tier(const struct store_limits *l, struct error *e)
{
	if (!l->tier)
		return -ENOENT;
	error_clear(e);
	return error_set(e, ERROR_NOT_FOUND, ENOENT,
		"there is no tier '%.64s': see mayfly tiers ls", l->tier);
}

int key_json_create(struct store *s, const struct store_key_spec *spec, bool for_operator,
	json_t **ret, struct error *e)
{
	char id[STORE_UUID_BYTES], secret[STORE_KEY_SECRET_BYTES];
	_cleanup_(store_key_freep) struct store_key *k = NULL;
	int r = store_key_create(s, spec, clock_realtime_ns(), id, secret, e);

	if (r == -ENOENT)
		r = no_such_tier(spec->limits, e);
	if (r == 0)
		r = store_key_get(s, id, &k, e);
	if (r == 0) {
		*ret = key_json(k, for_operator);
		/* without the secret the answer is useless, but the key can be revoked */
		if (!*ret || json_object_set_new(*ret, "key", json_string(secret)) < 0)
			r = operation_no_memory(e);
	}
	explicit_bzero(secret, sizeof(secret));
	return r;
}

/* --- operations --- */

struct find_team {
	const char *name;
	char id[STORE_UUID_BYTES]; /* empty: not found */
};

static int match_team(void *arg, const struct store_team *t)
{
	struct find_team *f = arg;

	if (strcmp(t->name, f->name) == 0 && !*f->id)
		(void)snprintf(f->id, sizeof(f->id), "%s", t->id); /* a UUID */
	return 0;
}

/* An empty id: all teams, or the default one. */
static int find_team(struct store *s, const char *name, struct find_team *ret, struct error *e)
{
	*ret = (struct find_team){.name = name};
	return name ? store_team_list(s, match_team, ret, e) : 0;
}

static int add_key(void *arg, const struct store_key *k)
{
	const struct operation *o = arg;
	json_t *kept = kept_json(o->store, k->id), *one;

	if (k->revoked_ns) {
		json_decref(kept);
		return 0;
	}
	one = key_json(k, true);
	if (!one || json_object_set_new(one, "kept", kept) < 0) {
		json_decref(one);
		return -ENOMEM;
	}
	return json_array_append_new(o->answer, one) < 0 ? -ENOMEM : 0;
}

int keys_list(struct operation *o, struct error *e)
{
	char team[STORE_NAME_MAX + 1];
	struct find_team f = {0};
	int has_team = operation_query(o, "team", team, sizeof(team), e);
	int r = has_team < 0 ? has_team : find_team(o->store, has_team ? team : NULL, &f, e);

	if (r == 0 && has_team && !*f.id)
		r = error_set(e, ERROR_NOT_FOUND, ENOENT, "no such team");
	if (r < 0)
		return r;
	o->answer = json_array();
	return store_key_list(o->store, has_team ? f.id : NULL, add_key, o, e);
}

int keys_create(struct operation *o, struct error *e)
{
	const char *name = json_string_value(json_object_get(o->body, "name"));
	const char *team = json_string_value(json_object_get(o->body, "team"));
	struct store_limits l = {0};
	struct find_team f;
	int r = key_limits_take(o->body, &l, e);

	if (r == 0)
		r = find_team(o->store, team, &f, e);
	if (r == 0 && team && !*f.id)
		r = store_team_create(o->store, team, clock_realtime_ns(), f.id, e);
	if (r < 0)
		return r;
	return key_json_create(o->store,
		&(struct store_key_spec){
			.name = name ? name : "", .team_id = team ? f.id : NULL, .limits = &l},
		true, &o->answer, e);
}

int keys_change(struct operation *o, struct error *e)
{
	const char *name = json_string_value(json_object_get(o->body, "name"));
	_cleanup_(store_key_freep) struct store_key *k = NULL;
	struct store_limits l;
	int r = store_key_get(o->store, o->id, &k, e);

	if (r < 0)
		return r;
	l = k->limits;
	r = key_limits_take(o->body, &l, e);
	if (r == 0)
		r = store_key_set_limits(o->store, o->id, &l, e);
	if (r == -ENOENT)
		return no_such_tier(&l, e);
	if (r == 0 && name)
		r = store_key_rename(o->store, o->id, name, e);
	return r;
}

/* Used without a daemon; the daemon has its own (api_keys.c). */
int keys_revoke(struct operation *o, struct error *e)
{
	char kill[8];
	int r = operation_query(o, "kill", kill, sizeof(kill), e);

	if (r < 0)
		return r;
	if (r > 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			"only a daemon can kill the key's sandboxes: start mayfly serve, or leave "
			"--kill out");
	return store_key_revoke(o->store, o->id, clock_realtime_ns(), e);
}

static int add_team(void *arg, const struct store_team *t)
{
	return json_array_append_new(arg, team_json(t, t->is_default)) < 0 ? -ENOMEM : 0;
}

int teams_list(struct operation *o, struct error *e)
{
	o->answer = json_array();
	return store_team_list(o->store, add_team, o->answer, e);
}
