#include "api/api.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/auth.h"
#include "api/health.h"
#include "api/scrape.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/str.h"
#include "fleet/fleet_of.h"
#include "fleet/instance.h"
#include "http/reply.h"
#include "http/router.h"
#include "proto/json_text.h"
#include "proto/json_tree.h"
#include "proto/timestamp.h"
#include "proto/uri.h"
#include "store/keys.h"
#include "store/sandboxes.h"

static void not_yet(struct request *r)
{
	reply_error(r, 501, "%s %s is not served by this version of Mayfly", r->head->method,
		r->head->path);
}

/* Literal segments come before "{}". */
static const struct router_entry table[] = {
	{"GET", "/health", api_health, ROUTER_OPEN},
	{"GET", "/.well-known/openid-configuration", api_identity_configuration, ROUTER_OPEN},
	{"GET", "/.well-known/jwks.json", api_identity_keys, ROUTER_OPEN},
	{"GET", "/metrics", scrape_handle, ROUTER_ADMIN},

	{"POST", "/sandboxes", api_create_v1, ROUTER_KEY},
	{"POST", "/v2/sandboxes", api_create_v2, ROUTER_KEY},
	{"GET", "/sandboxes", api_list_v1, ROUTER_KEY},
	{"GET", "/v2/sandboxes", api_list_v2, ROUTER_KEY},
	{"GET", "/sandboxes/metrics", api_metrics_many, ROUTER_KEY},
	{"GET", "/sandboxes/{}", api_get, ROUTER_KEY},
	{"DELETE", "/sandboxes/{}", api_kill, ROUTER_KEY},
	{"POST", "/sandboxes/{}/timeout", api_timeout, ROUTER_KEY},
	{"POST", "/sandboxes/{}/refreshes", api_refresh, ROUTER_KEY},
	{"POST", "/sandboxes/{}/connect", api_connect_v1, ROUTER_KEY},
	{"POST", "/v2/sandboxes/{}/connect", api_connect_v2, ROUTER_KEY},
	{"GET", "/sandboxes/{}/metrics", api_metrics, ROUTER_KEY},
	{"GET", "/sandboxes/{}/logs", api_logs_v1, ROUTER_KEY},
	{"GET", "/v2/sandboxes/{}/logs", api_logs_v2, ROUTER_KEY},
	{"GET", "/sandboxes/{}/activity", api_activity, ROUTER_KEY},
	{"POST", "/sandboxes/{}/run", api_run, ROUTER_KEY},
	{"POST", "/sandboxes/{}/pause", api_pause, ROUTER_KEY},
	{"POST", "/sandboxes/{}/resume", api_resume, ROUTER_KEY},
	{"POST", "/sandboxes/{}/fork", api_fork, ROUTER_KEY},
	{"POST", "/sandboxes/{}/rollback", api_rollback, ROUTER_KEY},
	{"POST", "/sandboxes/{}/snapshots", api_snapshot, ROUTER_KEY},
	{"POST", "/sandboxes/{}/diff", api_diff, ROUTER_KEY},
	{"PUT", "/sandboxes/{}/network", api_network, ROUTER_KEY},
	{"GET", "/sandboxes/{}/policy", api_policy_get, ROUTER_KEY},
	{"PUT", "/sandboxes/{}/policy", api_policy_put, ROUTER_KEY},
	{"DELETE", "/sandboxes/{}/policy", api_policy_delete, ROUTER_KEY},
	{"GET", "/sandboxes/{}/budgets", api_budgets, ROUTER_KEY},
	{"POST", "/execute", api_execute, ROUTER_KEY},
	{"GET", "/snapshots", api_snapshots_list, ROUTER_KEY},
	{"POST", "/agents/{}/invoke", api_agent_invoke, ROUTER_KEY},
	{"GET", "/agents/{}/invocations", api_agent_invocations, ROUTER_KEY},
	{"GET", "/invocations/{}", api_invocation, ROUTER_KEY},

	{"GET", "/agents", api_agents_list, ROUTER_KEY},
	{"PUT", "/agents/{}", api_agent_put, ROUTER_KEY},
	{"GET", "/agents/{}", api_agent_get, ROUTER_KEY},
	{"DELETE", "/agents/{}", api_agent_delete, ROUTER_KEY},
	{"GET", "/agents/{}/versions", api_agent_versions, ROUTER_KEY},
	{"GET", "/agents/{}/versions/{}", api_agent_version, ROUTER_KEY},
	{"GET", "/agents/{}/versions/{}/logs", api_agent_logs, ROUTER_KEY},
	{"POST", "/agents/{}/rollback", api_agent_rollback, ROUTER_KEY},
	{"PUT", "/agents/{}/aliases/{}", api_agent_alias_put, ROUTER_KEY},
	{"DELETE", "/agents/{}/aliases/{}", api_agent_alias_delete, ROUTER_KEY},

	{"GET", "/templates", api_templates_list, ROUTER_KEY},
	{"GET", "/v2/templates", api_templates_page, ROUTER_KEY},
	{"GET", "/runtimes", api_runtimes_list, ROUTER_KEY},
	{"GET", "/default-templates", api_templates_default, ROUTER_KEY},
	{"GET", "/templates/aliases/{}", api_template_alias, ROUTER_KEY},
	{"POST", "/templates/tags", api_tags_assign, ROUTER_KEY},
	{"DELETE", "/templates/tags", api_tags_remove, ROUTER_KEY},
	{"GET", "/templates/{}/tags", api_tags_list, ROUTER_KEY},
	{"GET", "/templates/{}/tags/count", api_tags_count, ROUTER_KEY},
	{"GET", "/templates/{}/tags/exists", api_tags_exists, ROUTER_KEY},
	{"GET", "/templates/{}/tags/groups", api_tags_groups, ROUTER_KEY},
	{"GET", "/templates/{}/tags/{}/assignments", api_tag_assignments, ROUTER_KEY},
	{"GET", "/templates/{}", api_template_get, ROUTER_KEY},
	{"DELETE", "/templates/{}", api_template_delete, ROUTER_KEY},
	{"PATCH", "/v2/templates/{}", api_template_change_v2, ROUTER_KEY},
	{"PATCH", "/templates/{}", api_template_change_v1, ROUTER_KEY},
	{"POST", "/templates", api_build_announce, ROUTER_KEY},
	{"POST", "/v2/templates", api_build_announce, ROUTER_KEY},
	{"POST", "/v3/templates", api_build_announce, ROUTER_KEY},
	{"GET", "/templates/{}/files/{}", api_upload_find, ROUTER_KEY},
	{"PUT", "/templates/{}/files/{}", api_upload_put, ROUTER_OPEN},
	{"POST", "/v2/templates/{}/builds/{}", api_build_begin, ROUTER_KEY},
	{"GET", "/templates/{}/builds/{}/status", api_build_status, ROUTER_KEY},
	{"GET", "/templates/{}/builds/{}/logs", api_build_logs, ROUTER_KEY},

	{"GET", "/teams", api_operator, ROUTER_ADMIN},
	{"GET", "/api-keys", api_operator, ROUTER_ADMIN},
	{"POST", "/api-keys", api_operator, ROUTER_ADMIN},
	{"PATCH", "/api-keys/{}", api_operator, ROUTER_ADMIN},
	{"DELETE", "/api-keys/{}", api_operator_revoke, ROUTER_ADMIN},
	{"GET", "/usage", api_operator_usage, ROUTER_ADMIN},
	{"GET", "/tiers", api_operator, ROUTER_ADMIN},
	{"GET", "/lockdown", api_operator, ROUTER_ADMIN},
	{"PUT", "/lockdown", api_operator, ROUTER_ADMIN},
	{"DELETE", "/lockdown", api_operator, ROUTER_ADMIN},
	{"PUT", "/tiers/{}", api_operator, ROUTER_ADMIN},
	{"DELETE", "/tiers/{}", api_operator, ROUTER_ADMIN},
	{"GET", "/teams", api_teams, ROUTER_KEY},
	{"GET", "/api-keys", api_keys_list, ROUTER_KEY},
	{"POST", "/api-keys", api_keys_create, ROUTER_KEY},
	{"PATCH", "/api-keys/{}", api_keys_rename, ROUTER_KEY},
	{"DELETE", "/api-keys/{}", api_keys_revoke, ROUTER_KEY},
	{"GET", "/usage", api_usage, ROUTER_KEY},
	{"GET", "/webhooks", api_webhooks_list, ROUTER_KEY},
	{"POST", "/webhooks", api_webhooks_create, ROUTER_KEY},
	{"GET", "/webhooks/{}", api_webhooks_get, ROUTER_KEY},
	{"PATCH", "/webhooks/{}", api_webhooks_change, ROUTER_KEY},
	{"DELETE", "/webhooks/{}", api_webhooks_remove, ROUTER_KEY},
	{"POST", "/webhooks/{}/test", api_webhooks_test, ROUTER_KEY},
	{"GET", "/approvals", api_approvals_list, ROUTER_KEY},
	{"GET", "/approvals/{}", api_approvals_get, ROUTER_KEY},
	{"POST", "/approvals/{}", api_approvals_decide, ROUTER_KEY},
	{"DELETE", "/approvals/{}", api_approvals_end, ROUTER_KEY},
	{"GET", "/approvals/{}/link", api_approval_page, ROUTER_OPEN},
	{"POST", "/approvals/{}/link", api_approval_link, ROUTER_OPEN},
	{"GET", "/events/webhooks", api_webhooks_list, ROUTER_KEY},
	{"POST", "/events/webhooks", api_webhooks_create, ROUTER_KEY},
	{"GET", "/events/webhooks/{}", api_webhooks_get, ROUTER_KEY},
	{"PATCH", "/events/webhooks/{}", api_webhooks_change, ROUTER_KEY},
	{"DELETE", "/events/webhooks/{}", api_webhooks_remove, ROUTER_KEY},
	{"GET", "/events/sandboxes", api_events, ROUTER_KEY},
	{"GET", "/events/sandboxes/{}", api_events_of, ROUTER_KEY},
	{"GET", "/nodes", api_nodes, ROUTER_ADMIN},
	{"GET", "/nodes/{}", api_node, ROUTER_ADMIN},
	{"POST", "/nodes/{}", api_node_change, ROUTER_ADMIN},
	{"POST", "/sealing-key/rotate", api_sealing_rotate, ROUTER_ADMIN},
	{"GET", "/volumes", not_yet, ROUTER_KEY},
	{"POST", "/volumes", not_yet, ROUTER_KEY},
	{"GET", "/volumes/{}", not_yet, ROUTER_KEY},
	{"DELETE", "/volumes/{}", not_yet, ROUTER_KEY},
	{"GET", "/secrets", api_secrets_list, ROUTER_KEY},
	{"POST", "/secrets", api_secrets_create, ROUTER_KEY},
	{"GET", "/secrets/{}", api_secrets_get, ROUTER_KEY},
	{"POST", "/secrets/{}", api_secrets_update, ROUTER_KEY},
	{"DELETE", "/secrets/{}", api_secrets_remove, ROUTER_KEY},
	{0},
};

void api_dispatch(struct request *r)
{
	router_dispatch(r, table, auth_check);
}

/* --- shared --- */

bool api_take_env(struct request *r, const json_t *body, char ***ret_env, struct agent_strings *ret)
{
	json_t *env = json_object_get(body, "env"), *value;
	const char *key;
	uint32_t n = 0;

	if (!env || json_is_null(env))
		return true;
	*ret_env = api_calloc(r, (json_object_size(env) + 1) * sizeof(char *));
	if (!*ret_env)
		return false;
	json_object_foreach(env, key, value)
	{
		if (!json_is_string(value) || !*key || strchr(key, '='))
			break;
		(*ret_env)[n] = str_printf("%s=%s", key, json_string_value(value));
		if (!(*ret_env)[n++]) {
			reply_error(r, 503, "out of memory");
			return false;
		}
	}
	*ret = (struct agent_strings){.array = (const char *const *)*ret_env, .count = n};
	if (json_is_object(env) && n == json_object_size(env))
		return true;
	reply_error(r, 400, "env must be an object of names and texts");
	return false;
}

void api_env_free(char **env)
{
	for (char **p = env; p && *p; p++) {
		explicit_bzero(*p, strlen(*p)); /* it may be secret */
		free(*p);
	}
	free(env);
}

json_t *api_text(const void *s, size_t n)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(6 * n + 2); /* escaped, at most */

	if (json_text_is_utf8(s, n))
		return json_stringn(n ? s : "", n);
	if (json_text_string(&b, s, n, JSON_TEXT_UTF8) < 0)
		return NULL;
	return json_loadb(
		(const char *)buf_head(&b), buf_len(&b), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

enum { ID_SHOWN = 64 }; /* of a text that is no sandbox's */

/* The part of a sandbox's ID before '-', where older clients put a client's. */
static size_t id_length(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789");

	return s[n] == '\0' || s[n] == '-' ? n : 0;
}

void api_refuse_absent(struct request *r)
{
	size_t n = id_length(r->params[0]);

	if (n)
		reply_error(r, 404, "Sandbox \"%.*s\" doesn't exist or you don't have access to it",
			(int)(n < ID_SHOWN ? n : ID_SHOWN), r->params[0]);
	else
		reply_error(r, 400, "Invalid sandbox ID");
}

struct store_sandbox *api_find(struct request *r)
{
	char id[ROUTE_SANDBOX_ID_MAX + 1];
	struct store_sandbox *sb = NULL;
	struct error e = {0};
	int err = route_sandbox_id(r->params[0], id)
			  ? store_sandbox_get(fleet_of(r)->store, id, &sb, &e)
			  : -ENOENT;

	if (err < 0 && err != -ENOENT) {
		reply_failure(r, &e);
		return NULL;
	}
	if (err == 0 && sb->state != STORE_KILLING && auth_may_see(r, sb->key_id))
		return sb;
	store_sandbox_free(sb);
	/* another key's sandbox gets the same answer as a missing one */
	api_refuse_absent(r);
	return NULL;
}

struct instance *api_find_running(struct request *r, const struct store_sandbox *sb)
{
	struct instance *i = instance_find(fleet_of(r), sb->id);

	if (!i)
		reply_error(r, 409, "the sandbox is not running: it is %s",
			store_sandbox_state_name(sb->state));
	return i;
}

bool api_is_own_name(const struct request *r, const struct template_ref *ref)
{
	return !*ref->namespace ||
	       store_team_is(fleet_of(r)->store, r->key->team_id, ref->namespace);
}

bool api_check_namespace(struct request *r, const struct template_ref *ref)
{
	if (api_is_own_name(r, ref))
		return true;
	reply_error(r, 400, "namespace '%.128s' must match your team '%s': leave it out",
		ref->namespace, r->key->team_id);
	return false;
}

struct instance *api_find_running_else(
	struct request *r, const struct store_sandbox *sb, const char *before, const char *after)
{
	if (sb->state != STORE_PAUSED)
		return api_find_running(r, sb);
	reply_error(r, 409, "%s '%s' %s", before, sb->id, after);
	return NULL;
}

json_t *api_body(struct request *r, const char *body, size_t n)
{
	char reason[JSON_TREE_REASON_BYTES];
	json_t *root;

	while (n && strchr(" \t\r\n", *body)) {
		body++;
		n--;
	}
	root = n ? json_tree_parse_said(body, n, JSON_TREE_UNIQUE | JSON_TREE_NO_NUL, reason)
		 : json_object();
	if (!root && !n)
		reply_error(r, 500, "out of memory");
	else if (!root)
		reply_error(r, 400,
			"Error when parsing request: the body must be a JSON object: %s", reason);
	return root;
}

int api_integer(const json_t *object, const char *key, int64_t *ret)
{
	const json_t *v = json_object_get(object, key);

	if (!v || json_is_null(v))
		return -ENOENT;
	if (!json_is_integer(v))
		return -EINVAL;
	*ret = json_integer_value(v);
	return 0;
}

bool api_take_flag(struct request *r, const json_t *object, const char *key, bool *ret)
{
	const json_t *v = json_object_get(object, key);

	if (!v || json_is_null(v))
		return true;
	if (!json_is_boolean(v)) {
		reply_error(r, 400, "%s must be true or false", key);
		return false;
	}
	*ret = json_is_true(v);
	return true;
}

bool api_take_query_flag(struct request *r, const char *name, bool *ret)
{
	int err = uri_query_flag(r->head->query, name, ret);

	if (err == 0 || err == -ENOENT)
		return true;
	reply_error(r, 400, "%s must be 1 or 0", name);
	return false;
}

bool api_take_stream(struct request *r, const json_t *body, bool *ret)
{
	const char *accept = http_header_get(&r->head->headers, "Accept");

	*ret = accept && strstr(accept, "text/event-stream");
	return api_take_query_flag(r, "stream", ret) && api_take_flag(r, body, "stream", ret);
}

json_t *api_time(uint64_t ns)
{
	char text[TIMESTAMP_BYTES];

	return json_string(timestamp_format_ns(ns, text));
}

static json_t *text_or_null(const char *s)
{
	return s ? json_string(s) : json_null();
}

json_t *api_template_id_json(const struct store_sandbox *sb)
{
	char snapshot[STORE_SNAPSHOT_ID_BYTES];

	instance_snapshot_of(sb, snapshot);
	return json_string(*snapshot ? snapshot : sb->template_id);
}

json_t *api_sandbox_json(const struct request *r, const struct store_sandbox *sb)
{
	return json_pack("{s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "templateID",
		api_template_id_json(sb), "sandboxID", sb->id, "clientID", API_CLIENT_ID,
		"envdVersion", sb->envd_version, "alias", text_or_null(sb->template_alias),
		"envdAccessToken", text_or_null(sb->envd_token), "trafficAccessToken",
		text_or_null(sb->traffic_token), "domain", text_or_null(request_domain(r)));
}

uint32_t api_limit(struct request *r, uint32_t max, uint32_t otherwise)
{
	unsigned long long v;
	int err = uri_query_u64(r->head->query, "limit", max, &v);

	if (err == -ENOENT)
		return otherwise;
	if (err < 0 || v == 0) {
		reply_error(r, 400, "limit must be a number from 1 to %u", max);
		return 0;
	}
	return (uint32_t)v;
}

bool api_take_time(struct request *r, const char *name, uint64_t unit_ns, uint64_t *ret)
{
	unsigned long long v;
	int err = uri_query_u64(r->head->query, name, STORE_NEVER_NS / unit_ns, &v);

	if (err == 0)
		*ret = v * unit_ns;
	else if (err != -ENOENT)
		reply_error(r, 400, "%s must be a unix time", name);
	return err == 0 || err == -ENOENT;
}

bool api_take_query(struct request *r, const char *name, char *out, size_t cap)
{
	int n = uri_query_get(r->head->query, name, out, cap);

	if (n == -ENOENT)
		out[0] = '\0';
	if (n == -ENOENT || (n >= 0 && json_text_is_utf8(out, (size_t)n)))
		return true;
	reply_error(r, 400, "%s must be a text of at most %zu bytes", name, cap - 1);
	return false;
}

bool api_take_number(struct request *r, const char *name, const char *refusal,
	unsigned long long max, unsigned long long *ret)
{
	char text[24];

	*ret = 0;
	if (uri_query_get(r->head->query, name, text, sizeof(text)) == 0)
		return true;
	switch (uri_query_u64(r->head->query, name, max, ret)) {
	case 0:
	case -ENOENT:
		return true;
	default:
		reply_error(r, 400, "%s", refusal);
		return false;
	}
}

bool api_take_direction(struct request *r, bool *ret_backward)
{
	char name[16];
	int n = uri_query_get(r->head->query, "direction", name, sizeof(name));

	*ret_backward = n == -ENOENT || (n > 0 && strcmp(name, "backward") == 0);
	if (*ret_backward || (n > 0 && strcmp(name, "forward") == 0))
		return true;
	reply_error(r, 400, "direction must be forward or backward");
	return false;
}

/* --- deferred answers --- */

struct api_deferred {
	struct request *request; /* NULL: the client has gone */
	bool taken;
};

static void on_deferred_done(struct request *r, bool complete)
{
	struct api_deferred *d = r->data;

	if (d->taken)
		free(d);
	else
		d->request = NULL;
}

static const struct request_ops deferred_ops = {.done = on_deferred_done};

void *api_calloc(struct request *r, size_t bytes)
{
	void *p = fault_point("api-memory") < 0 ? NULL : calloc(1, bytes);

	if (!p)
		reply_error(r, 503, "out of memory");
	return p;
}

struct api_deferred *api_defer(struct request *r)
{
	struct api_deferred *d = api_calloc(r, sizeof(*d));

	if (!d)
		return NULL;
	d->request = r;
	request_set_ops(r, &deferred_ops, d);
	return d;
}

struct request *api_deferred_take(struct api_deferred *d)
{
	struct request *r = d->request;

	d->taken = true;
	if (!r)
		free(d);
	return r;
}
