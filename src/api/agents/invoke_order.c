#include "api/agents/invoke_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agents.h"
#include "api/auth.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "lifecycle/allowance.h"
#include "network/bindings.h"
#include "policy/seal.h"
#include "proto/json_tree.h"
#include "store/keys.h"

/* What a variable takes besides its text. */
enum { VARIABLE_BYTES = 40 };

/* What parsed JSON takes, in bytes for each of its text. */
enum { TREE_FACTOR = 8 };

/* A failing function answers and returns false. */

static bool no_memory(struct request *r)
{
	reply_error(r, 503, "out of memory");
	return false;
}

/* --- the agent --- */

static bool take_agent(struct request *r, struct invoke_order *o)
{
	struct agent_ref ref;
	const char *reason;
	struct error e = {0};

	o->fleet = fleet_of(r);
	o->version = api_calloc(r, sizeof(*o->version));
	if (!o->version)
		return false;
	if (agent_ref_parse(r->params[0], &ref, &reason) < 0) {
		reply_error(r, 400, "%s", reason);
		return false;
	}
	(void)snprintf(o->key_id, sizeof(o->key_id), "%s", r->key->id); /* a UUID fits */
	if (agents_find(o->fleet, o->key_id, &ref, o->order.session, &o->agent, o->version, &e) <
		0) {
		reply_failure(r, &e);
		return false;
	}
	o->held = agents_hold(o->fleet, o->version->build_id) == 0;
	return o->held || no_memory(r);
}

/* --- the body --- */

static bool is_json(const struct request *r)
{
	const char *type = http_header_get(&r->head->headers, "Content-Type");

	return type && str_starts_with(type, "application/json");
}

static bool take_seconds(
	struct request *r, const json_t *body, const char *key, double max_s, uint64_t *ret_ns)
{
	const json_t *v = json_object_get(body, key);
	double s = json_number_value(v);

	if (json_tree_is_absent(v))
		return true;
	if (!json_is_number(v) || s < 0.001 || s > max_s) {
		reply_error(r, 400, "%s must be a number of seconds, at most %.0f", key, max_s);
		return false;
	}
	*ret_ns = (uint64_t)(s * (double)NS_PER_S);
	return true;
}

static bool take_times(struct request *r, const json_t *body, struct invoke_order *o)
{
	uint64_t max_ns = auth_timeout_max_ns(r);
	double max_s = max_ns / NS_PER_S < INVOKE_TIMEOUT_MAX_S ? (double)(max_ns / NS_PER_S)
								: INVOKE_TIMEOUT_MAX_S;
	uint64_t timeout_ns = o->version->timeout_s * NS_PER_S;

	o->order.timeout_ns = timeout_ns < max_ns ? timeout_ns : max_ns;
	o->order.queue_ns = INVOCATION_QUEUE_S * NS_PER_S;
	o->order.idle_ns = INVOCATION_IDLE_S * NS_PER_S;
	if (!take_seconds(r, body, "timeout", max_s, &o->order.timeout_ns) ||
		!take_seconds(r, body, "queue", INVOCATION_QUEUE_MAX_S, &o->order.queue_ns) ||
		!take_seconds(r, body, "idle", INVOKE_TIMEOUT_MAX_S, &o->order.idle_ns))
		return false;
	if (o->order.idle_ns > max_ns)
		o->order.idle_ns = max_ns;
	return true;
}

static bool take_session(struct request *r, const json_t *body, struct invoke_order *o)
{
	const json_t *v = json_object_get(body, "session");
	const char *s = json_string_value(v);

	if (json_tree_is_absent(v))
		return true;
	if (!s || !*s || json_string_length(v) > STORE_INVOCATION_SESSION_MAX) {
		reply_error(r, 400, "session must be a text of 1 to %d bytes",
			STORE_INVOCATION_SESSION_MAX);
		return false;
	}
	(void)strcpy(o->session, s); /* checked above */
	o->order.session = o->session;
	return true;
}

/* Takes the prompt: the body as text, or its member `prompt`. A program that listens gets the whole
 * body. */
static bool take_input(
	struct request *r, const json_t *body, const char *text, size_t n, struct invoke_order *o)
{
	const json_t *prompt = json_object_get(body, "prompt");
	bool listens = o->version->protocol == STORE_AGENT_HTTP, json = is_json(r);

	if (json && !listens && !json_is_string(prompt)) {
		reply_error(r, 400, "prompt must be given, as text");
		return false;
	}
	if (listens && !json) {
		json_t *all = json_pack("{s:o}", "prompt", json_stringn(text, n));

		if (!all) {
			reply_error(r, 400, "the prompt must be UTF-8");
			return false;
		}
		o->input = json_dumps(all, JSON_COMPACT);
		json_decref(all);
		n = o->input ? strlen(o->input) : 0;
	} else {
		if (json && !listens) {
			text = json_string_value(prompt);
			n = json_string_length(prompt);
		}
		o->input = malloc(n + 1);
		if (o->input)
			memcpy(o->input, text, n);
	}
	o->order.input = o->input;
	o->order.input_bytes = n;
	o->order.content_type = "application/json";
	return o->input || no_memory(r);
}

static bool take_options(struct request *r, const json_t *body, struct invoke_order *o)
{
	return api_take_stream(r, body, &o->stream) && api_take_query_flag(r, "async", &o->async) &&
	       api_take_flag(r, body, "async", &o->async) && take_times(r, body, o) &&
	       api_take_env(r, body, &o->env, &o->order.env);
}

/* Copies everything out of the parsed body, which may be many times as large as its text. */
static bool take_body(struct request *r, const char *text, size_t n, struct invoke_order *o)
{
	json_t *body = is_json(r) ? api_body(r, text, n) : json_object();
	bool ok = body && take_session(r, body, o) && take_agent(r, o) &&
		  take_options(r, body, o) && take_input(r, body, text, n, o);

	json_decref(body);
	o->order.bytes = (n > o->order.input_bytes ? n : o->order.input_bytes) +
			 o->order.env.count * VARIABLE_BYTES;
	return ok;
}

/* --- its sandbox --- */

static json_t *stored_object(const char *text)
{
	json_t *v = *text ? json_tree_stored(text) : NULL;

	return v ? v : json_object();
}

/* Whole seconds, as many as the key may ask for. */
static uint64_t sandbox_timeout_s(struct request *r, uint64_t ns)
{
	uint64_t s = (ns + NS_PER_S - 1) / NS_PER_S, max_s = auth_timeout_max_ns(r) / NS_PER_S;

	return s < max_s ? s : max_s;
}

/* The body of POST /v2/sandboxes. Its ports need a token. */
static json_t *sandbox_body(struct request *r, const struct invoke_order *o)
{
	json_t *env = stored_object(o->version->env_json),
	       *stored = stored_object(o->version->secrets_json),
	       *secrets = agent_settings_hidden(stored), *body;

	if (o->version->protocol == STORE_AGENT_HTTP)
		(void)json_object_set_new(env, "PORT", json_sprintf("%d", INVOKE_PORT));
	body = json_pack("{s:I, s:o, s:{s:b}, s:{s:s, s:s, s:s*}, s:b}", "timeout",
		(json_int_t)sandbox_timeout_s(r, o->order.timeout_ns), "envVars", env, "network",
		"allowPublicTraffic", false, "metadata", SESSION_AGENT, o->agent.name,
		SESSION_BUILD, o->version->build_id, SESSION_NAME, o->order.session, "autoPause",
		o->order.session != NULL);
	if (body && json_object_size(secrets))
		(void)json_object_set(body, "secrets", secrets);
	if (!secrets) { /* it would lack them */
		json_decref(body);
		body = NULL;
	}
	json_decref(secrets);
	json_decref(stored);
	return body;
}

/* Adds a variable, unless the request has one of that name. */
static bool add_variable(
	struct request *r, struct invoke_order *o, const char *variable, const char *value)
{
	uint32_t n = o->order.env.count;
	char **more;

	for (uint32_t i = 0; i < n; i++)
		if (str_starts_with(o->env[i], variable) && o->env[i][strlen(variable)] == '=')
			return true;
	more = realloc(o->env, (n + 2) * sizeof(*more));
	if (!more)
		return no_memory(r);
	o->env = more;
	more[n] = str_printf("%s=%s", variable, value);
	more[n + 1] = NULL;
	o->order.env.array = (const char *const *)more;
	o->order.env.count += more[n] != NULL;
	o->order.bytes += strlen(value) + VARIABLE_BYTES;
	return more[n] || no_memory(r);
}

/* Secrets that the program gets: its environment has them, and nothing that is stored. */
static bool add_plain(struct request *r, struct invoke_order *o, json_t *secrets)
{
	const char *variable;
	struct error e = {0};
	json_t *one;

	json_object_foreach(secrets, variable, one)
	{
		_cleanup_(secret_freep) char *value = NULL;

		if (!agent_settings_is_plain(one))
			continue;
		if (bindings_value(o->fleet, o->key_id, variable, one, &value, &e) < 0) {
			reply_failure(r, &e);
			return false;
		}
		if (!add_variable(r, o, variable, value))
			return false;
	}
	return true;
}

static bool take_plain(struct request *r, struct invoke_order *o)
{
	json_t *secrets = stored_object(o->version->secrets_json);
	bool ok = add_plain(r, o, secrets);

	json_decref(secrets);
	return ok;
}

/* Adds what the version says of the network, where a creation has it. */
static bool add_reach(json_t *body, const char *network_json)
{
	json_t *reach = json_tree_stored(network_json),
	       *internet = json_object_get(reach, "allow_internet_access");
	int e = reach ? 0 : -1; /* without it, the sandbox would be open */

	if (e == 0)
		e = json_object_update_missing(
			json_object_get(body, "network"), json_object_get(reach, "network"));
	if (e == 0 && internet)
		e = json_object_set(body, "allow_internet_access", internet);
	json_decref(reach);
	return e == 0;
}

/* The snapshot of a version of an older Mayfly does not have its variables, so the program must be
 * started again with them. */
static bool has_variables(const struct store_agent_version *v)
{
	json_t *env = stored_object(v->env_json), *secrets = stored_object(v->secrets_json);
	bool any = json_object_size(env) || json_object_size(secrets);

	json_decref(env);
	json_decref(secrets);
	return any;
}

static bool may_begin(struct request *r, const struct invoke_order *o)
{
	struct error e = {0};

	if (!r->admin && allowance_check(o->fleet, o->key_id, &e) < 0) {
		reply_failure(r, &e);
		return false;
	}
	return auth_may_resume(r) && (!o->order.session || auth_may_promise(r, o->key_id, 1));
}

static bool take_creation(struct request *r, struct invoke_order *o, json_t *body)
{
	const char *network = o->warm.network_json;
	json_t *placeholders =
		o->warm.placeholders_json ? stored_object(o->warm.placeholders_json) : NULL;
	struct api_creation_of of = {.template = o->version->build_id,
		.alias = o->agent.name,
		.authority = o->warm.authority,
		.placeholders = placeholders};

	if (body && (!network || add_reach(body, network)))
		o->creation = api_creation_take(r, body, &of);
	else
		(void)no_memory(r);
	if (network)
		o->order.bytes += TREE_FACTOR * strlen(network);
	json_decref(placeholders);
	return o->creation != NULL;
}

static bool take_sandbox(struct request *r, struct invoke_order *o)
{
	struct error e = {0};
	json_t *body;
	bool ok;

	if (store_agent_warm_get(o->fleet->store, o->agent.id, o->version->number, &o->warm, &e) <
		0) {
		reply_failure(r, &e);
		return false;
	}
	body = sandbox_body(r, o);
	ok = take_creation(r, o, body);
	json_decref(body);
	return ok;
}

bool invoke_order_take(struct request *r, const char *text, size_t n, struct invoke_order *ret)
{
	struct invoke_order *o = ret;
	bool fresh;

	*o = (struct invoke_order){0};
	if (!take_body(r, text, n, o))
		return false;
	fresh = o->order.env.count;
	if (!take_sandbox(r, o) || !take_plain(r, o) || !may_begin(r, o))
		return false;
	o->order.sandbox = api_creation_order(o->creation);
	o->order.unlimited = r->admin;
	o->order.async = o->async;
	o->order.key_id = o->key_id;
	o->order.agent_id = o->agent.id;
	o->order.agent = o->agent.name;
	o->order.version = o->version->number;
	o->order.build_id = o->version->build_id;
	o->order.concurrency = o->version->concurrency;
	o->order.command = o->version->entry;
	o->order.dir = o->version->dir;
	o->order.user = o->version->user;
	o->order.port = o->version->protocol == STORE_AGENT_HTTP ? INVOKE_PORT : 0;
	o->order.fresh = fresh || (!o->order.session && !o->warm.placeholders_json &&
					  has_variables(o->version));
	return true;
}

void invoke_order_done(struct invoke_order *o)
{
	api_env_free(o->env);
	free(o->input);
	api_creation_free(o->creation);
	if (o->held)
		agents_release(o->fleet, o->version->build_id);
	store_agent_warm_done(&o->warm);
	free(o->version);
	*o = (struct invoke_order){0};
}
