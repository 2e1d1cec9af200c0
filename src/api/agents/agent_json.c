#include "api/agents/agent_json.h"

#include "agents/agents.h"
#include "api/api.h"
#include "base/str.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "proto/agent_settings.h"
#include "proto/json_tree.h"
#include "store/keys.h"

/* --- of a path --- */

bool agent_of_path(struct request *r, struct store_agent *ret)
{
	struct agent_ref ref;
	const char *reason;
	struct error e = {0};

	if (agent_ref_parse(r->params[0], &ref, &reason) < 0 || *ref.alias || ref.version) {
		reply_error(r, 400, "%s", *ref.alias || ref.version ? "give a name alone" : reason);
		return false;
	}
	if (store_agent_find(fleet_of(r)->store, r->key->id, ref.name, ret, &e) == 0)
		return true;
	if (e.code == ERROR_NOT_FOUND)
		reply_error(r, 404, "there is no agent '%.128s'", ref.name);
	else
		reply_failure(r, &e);
	return false;
}

bool agent_version_of_path(
	struct request *r, const struct store_agent *a, struct store_agent_version *ret)
{
	uint64_t number = 0;
	struct error e = {0};
	int err = str_parse_u64(r->params[1], &number);

	if (err == 0 && number <= UINT32_MAX)
		err = store_agent_version_get(fleet_of(r)->store, a->id, (uint32_t)number, ret, &e);
	if (err == 0 && number <= UINT32_MAX)
		return true;
	if (e.code == ERROR_NONE || e.code == ERROR_NOT_FOUND)
		reply_error(
			r, 404, "the agent '%.128s' has no version %.32s", a->name, r->params[1]);
	else
		reply_failure(r, &e);
	return false;
}

/* --- JSON --- */

const char *agent_state_name(enum store_agent_state s)
{
	static const char *const names[STORE_AGENT_STATES_] = {
		"building", "ready", "failed", "retired"};

	return s < STORE_AGENT_STATES_ ? names[s] : "failed";
}

static int add_alias(void *arg, const char *alias, const char *weights_json)
{
	return json_object_set_new(arg, alias, json_tree_stored(weights_json)) < 0 ? -1 : 0;
}

static json_t *number_or_null(uint32_t n)
{
	return n ? json_integer(n) : json_null();
}

static int take_state(void *arg, const struct store_agent_version *v)
{
	const char **state = arg;

	*state = agent_state_name(v->state);
	return 1;
}

json_t *agent_json(struct request *r, const struct store_agent *a)
{
	struct store *s = fleet_of(r)->store;
	json_t *aliases = json_object();
	const char *state = "failed";

	if (!aliases || store_agent_alias_list(s, a->id, add_alias, aliases, NULL) < 0) {
		json_decref(aliases);
		return NULL;
	}
	(void)store_agent_version_list(s, a->id, 0, 1, take_state, &state, NULL); /* or failed */
	return json_pack("{s:s, s:s, s:o, s:i, s:s, s:o, s:o, s:o}", "name", a->name, "agentID",
		a->id, "version", number_or_null(a->current), "latestVersion", (int)a->last,
		"latestState", state, "aliases", aliases, "createdAt", api_time(a->created_ns),
		"updatedAt", api_time(a->updated_ns));
}

/* What its end said. */
static int add_end(json_t *json, const struct store_agent_version *v)
{
	if (v->state == STORE_AGENT_BUILDING)
		return 0;
	if (v->state != STORE_AGENT_READY &&
		json_object_set_new(json, "error",
			json_pack("{s:s, s:s*}", "message", v->reason, "step",
				*v->step ? v->step : NULL)) < 0)
		return -1;
	if (!*v->kind)
		return 0;
	return json_object_update_new(
		json, json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", v->kind, "entry", v->entry,
			      "protocol", v->protocol == STORE_AGENT_HTTP ? "http" : "stdin",
			      "directory", v->dir, "user", v->user));
}

/* Whether its program waits in the snapshot, and what its sandboxes may reach, once its build has
 * told. */
static int add_warm(struct request *r, json_t *json, const struct store_agent *a,
	const struct store_agent_version *v)
{
	struct store_agent_warm w = {NULL};
	json_t *reach = NULL;
	int err = store_agent_warm_get(fleet_of(r)->store, a->id, v->number, &w, NULL);

	if (err == 0 && v->state != STORE_AGENT_BUILDING)
		err = json_object_update_new(
			json, json_pack("{s:b, s:s*}", "warm", w.placeholders_json && !w.cold,
				      "notWarm", w.cold));
	if (err == 0 && w.network_json) {
		reach = json_tree_stored(w.network_json);
		api_network_hide(json_object_get(reach, "network"));
		err = reach ? json_object_update(json, reach) : -1;
	}
	json_decref(reach);
	store_agent_warm_done(&w);
	return err;
}

json_t *agent_version_json(
	struct request *r, const struct store_agent *a, const struct store_agent_version *v)
{
	json_t *json =
		json_pack("{s:s, s:i, s:s, s:b, s:s, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o}",
			"agent", a->name, "version", (int)v->number, "state",
			agent_state_name(v->state), "current", v->number == a->current, "buildID",
			v->build_id, "cpuCount", (int)v->cpus, "memoryMB", (int)v->memory_mb,
			"diskSizeMB", (int)v->disk_mb, "timeout", (int)v->timeout_s, "concurrency",
			(int)(v->concurrency ? v->concurrency : AGENT_SETTING_CONCURRENCY), "env",
			json_tree_stored(v->env_json), "secrets", json_tree_stored(v->secrets_json),
			"createdAt", api_time(v->created_ns), "finishedAt",
			v->finished_ns ? api_time(v->finished_ns) : json_null());

	if (json && add_warm(r, json, a, v) == 0 && add_end(json, v) == 0)
		return json;
	json_decref(json);
	return NULL;
}
