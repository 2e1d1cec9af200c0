/* Hosted agents (docs/agents.md): lists, versions with their builds' logs, aliases, removal. */
#include <errno.h>
#include <stdlib.h>

#include "agents/keep.h"
#include "agents/move.h"
#include "api/agents/agent_json.h"
#include "api/api.h"
#include "api/template/build_json.h"
#include "base/cleanup.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "invocation/invocations.h"
#include "proto/json_tree.h"
#include "store/builds.h"
#include "store/keys.h"

/* --- lists --- */

struct listing {
	struct request *request;
	const struct store_agent *agent; /* of versions */
	json_t *list;
	uint32_t limit, last;
	bool more;
};

static int add_agent(void *arg, const struct store_agent *a)
{
	struct listing *l = arg;

	return json_array_append_new(l->list, agent_json(l->request, a)) < 0 ? -1 : 0;
}

/* Takes the list. */
static void reply_list(struct listing *l, int err, const struct error *e)
{
	struct http_field field = {"X-Next-Token", NULL};
	char next[16];

	if (err < 0) {
		json_decref(l->list);
		if (e->code == ERROR_NONE)
			reply_error(l->request, 503, "out of memory");
		else
			reply_failure(l->request, e);
		return;
	}
	if (l->more) {
		(void)snprintf(next, sizeof(next), "%u", l->last); /* fits */
		field.value = next;
	}
	reply_json_fields(l->request, 200, l->list, &field, l->more);
}

void api_agents_list(struct request *r)
{
	struct listing l = {.request = r, .list = json_array()};
	struct error e = {0};

	reply_list(&l, store_agent_list(fleet_of(r)->store, r->key->id, add_agent, &l, &e), &e);
}

static int add_version(void *arg, const struct store_agent_version *v)
{
	struct listing *l = arg;

	if (json_array_size(l->list) == l->limit) {
		l->more = true;
		return 1;
	}
	l->last = v->number;
	return json_array_append_new(l->list, agent_version_json(l->request, l->agent, v)) < 0 ? -1
											       : 0;
}

void api_agent_versions(struct request *r)
{
	struct listing l = {.request = r, .limit = api_limit(r, API_PAGE_MAX, API_PAGE_MAX)};
	unsigned long long before = 0;
	struct store_agent a;
	struct error e = {0};
	int err;

	if (!l.limit ||
		!api_take_number(r, "nextToken", "Invalid next token", UINT32_MAX, &before) ||
		!agent_of_path(r, &a))
		return;
	l.agent = &a;
	l.list = json_array();
	err = store_agent_version_list(
		fleet_of(r)->store, a.id, (uint32_t)before, l.limit + 1, add_version, &l, &e);
	reply_list(&l, err, &e);
}

/* --- one --- */

void api_agent_get(struct request *r)
{
	struct store_agent a;

	if (agent_of_path(r, &a))
		reply_json(r, 200, agent_json(r, &a));
}

void api_agent_version(struct request *r)
{
	_cleanup_free_ struct store_agent_version *v = api_calloc(r, sizeof(*v));
	struct store_agent a;

	if (v && agent_of_path(r, &a) && agent_version_of_path(r, &a, v))
		reply_json(r, 200, agent_version_json(r, &a, v));
}

/* Entries from a number on, and the number to go on with. */
void api_agent_logs(struct request *r)
{
	_cleanup_free_ struct store_agent_version *v = api_calloc(r, sizeof(*v));
	_cleanup_free_ struct store_build *b = v ? api_calloc(r, sizeof(*b)) : NULL;
	struct store_build_log_filter f = {
		.limit = v && b ? api_limit(r, STORE_BUILD_LOGS_PAGE, 100) : 0};
	unsigned long long from = 0;
	uint64_t last = 0;
	struct store_agent a;
	struct error e = {0};
	json_t *entries;

	if (!f.limit || !api_take_log_level(r, &f.level) ||
		!api_take_number(
			r, "logsOffset", "logsOffset must be a number", INT64_MAX, &from) ||
		!agent_of_path(r, &a) || !agent_version_of_path(r, &a, v))
		return;
	if (store_build_get(fleet_of(r)->store, v->build_id, b, &e) < 0) {
		reply_failure(r, &e);
		return;
	}
	f.from = from;
	f.build_seq = b->seq;
	entries = api_build_entries(r, &f, &last);
	if (entries && json_array_size(entries))
		from = last + 1; /* a level leaves some out */
	if (entries)
		reply_json(r, 200,
			json_pack("{s:s, s:I, s:o}", "state", agent_state_name(v->state), "next",
				(json_int_t)from, "logs", entries));
}

void api_agent_delete(struct request *r)
{
	struct store_agent a;
	struct error e = {0};

	if (!agent_of_path(r, &a))
		return;
	if (agents_remove(fleet_of(r), a.id, &e) < 0) {
		reply_failure(r, &e);
		return;
	}
	invocations_end_agent(fleet_of(r), a.key_id, a.id, a.name);
	reply_empty(r, 204);
}

/* --- what leads to versions --- */

static void reply_agent(struct request *r, const char *id)
{
	struct store_agent a;
	struct error e = {0};

	if (store_agent_get(fleet_of(r)->store, id, &a, &e) < 0)
		reply_failure(r, &e);
	else
		reply_json(r, 200, agent_json(r, &a));
}

static void rollback(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n);
	int64_t number = 0;
	int given = body ? api_integer(body, "version", &number) : 0;
	struct store_agent a;
	struct error e = {0};
	uint32_t to;

	json_decref(body);
	if (!body)
		return;
	if (given == -EINVAL || number < 0 || number > UINT32_MAX || (given == 0 && number == 0))
		reply_error(r, 400, "version must be a number from 1 on");
	else if (!agent_of_path(r, &a))
		return;
	else if (agents_rollback(fleet_of(r), &a, (uint32_t)number, &to, &e) < 0)
		reply_failure(r, &e);
	else
		reply_agent(r, a.id);
}

void api_agent_rollback(struct request *r)
{
	request_collect(r, API_BODY_MAX, rollback);
}

/* {"weights": {...}}, or {"version": N} for one alone. */
static json_t *take_weights(struct request *r, const json_t *body)
{
	json_t *weights = json_object_get(body, "weights");
	int64_t number = 0;
	int given = api_integer(body, "version", &number);
	char text[32];

	if (json_is_object(weights) && given == -ENOENT)
		return json_incref(weights);
	if (weights || given < 0) {
		reply_error(r, 400,
			"give version, or weights as in {\"weights\": {\"3\": 90, \"4\": 10}}");
		return NULL;
	}
	(void)snprintf(text, sizeof(text), "%lld", (long long)number); /* fits */
	return json_pack("{s:i}", text, 1);
}

static void put_alias(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n), *weights = body ? take_weights(r, body) : NULL;
	struct store_agent a;
	struct error e = {0};

	if (weights && agent_of_path(r, &a)) {
		if (agents_set_alias(fleet_of(r), &a, r->params[1], weights, &e) < 0)
			reply_failure(r, &e);
		else
			reply_agent(r, a.id);
	}
	json_decref(weights);
	json_decref(body);
}

void api_agent_alias_put(struct request *r)
{
	request_collect(r, API_BODY_MAX, put_alias);
}

void api_agent_alias_delete(struct request *r)
{
	struct store_agent a;
	struct error e = {0};

	if (!agent_of_path(r, &a))
		return;
	if (agents_remove_alias(fleet_of(r), &a, r->params[1], &e) < 0)
		reply_failure(r, &e);
	else
		reply_empty(r, 204);
}
