/* The control API (protocol section 2; docs/api.md lists what is served). */
#ifndef API_API_H
#define API_API_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "catalog/find.h"
#include "http/request.h"
#include "lifecycle/instance_make.h"
#include "proto/agent_wire.h"
#include "store/sandboxes.h"

#define API_CLIENT_ID "6532622b" /* a fixed value from older APIs; clients require it */

enum {
	API_BODY_MAX = 1024 * 1024,
	API_LIST_BYTES_MAX = 48 * 1024 * 1024, /* of one answer that is a list */
	API_TIMEOUT_V1_S = 15,
	API_TIMEOUT_V2_S = 300,
	API_PAGE_MAX = 100,
};

/* Handles a request of the control API. */
void api_dispatch(struct request *r);

/* --- handlers --- */

void api_create_v1(struct request *r);
void api_create_v2(struct request *r);
void api_execute(struct request *r);	  /* code/ */
void api_agent_invoke(struct request *r); /* agents/ */
void api_agent_invocations(struct request *r);
void api_invocation(struct request *r);
void api_list_v1(struct request *r);
void api_list_v2(struct request *r);
void api_get(struct request *r);
void api_kill(struct request *r);
void api_timeout(struct request *r);
void api_refresh(struct request *r);
void api_connect_v1(struct request *r);
void api_connect_v2(struct request *r);
void api_pause(struct request *r);
void api_resume(struct request *r);
void api_fork(struct request *r);
void api_rollback(struct request *r);
void api_snapshot(struct request *r);
void api_snapshots_list(struct request *r);
void api_diff(struct request *r);
void api_activity(struct request *r); /* api_activity.c */
void api_network(struct request *r);  /* api_network.c */
void api_policy_get(struct request *r);
void api_policy_put(struct request *r);
void api_policy_delete(struct request *r);
void api_budgets(struct request *r);
void api_template_delete(struct request *r);
void api_metrics(struct request *r);
void api_metrics_many(struct request *r);
void api_logs_v1(struct request *r);
void api_logs_v2(struct request *r);
void api_templates_list(struct request *r);
void api_templates_page(struct request *r);
void api_templates_default(struct request *r);
void api_runtimes_list(struct request *r); /* api_runtimes.c */
void api_template_get(struct request *r);
void api_template_alias(struct request *r);
void api_template_change_v1(struct request *r); /* api_catalog.c */
void api_template_change_v2(struct request *r);
void api_build_announce(struct request *r); /* api_builds.c */
void api_build_begin(struct request *r);
void api_build_status(struct request *r);
void api_build_logs(struct request *r);
void api_agent_put(struct request *r); /* agents/ */
void api_agents_list(struct request *r);
void api_agent_get(struct request *r);
void api_agent_delete(struct request *r);
void api_agent_versions(struct request *r);
void api_agent_version(struct request *r);
void api_agent_logs(struct request *r);
void api_agent_rollback(struct request *r);
void api_agent_alias_put(struct request *r);
void api_agent_alias_delete(struct request *r);
void api_upload_find(struct request *r); /* api_uploads.c */
void api_upload_put(struct request *r);
void api_tags_assign(struct request *r); /* api_tags.c */
void api_tags_remove(struct request *r);
void api_tags_list(struct request *r);
void api_tags_count(struct request *r);
void api_tags_exists(struct request *r);
void api_tags_groups(struct request *r);
void api_tag_assignments(struct request *r);
void api_teams(struct request *r);
void api_nodes(struct request *r); /* api_nodes.c */
void api_node(struct request *r);
void api_node_change(struct request *r);
void api_events(struct request *r); /* api_events.c */
void api_run(struct request *r);    /* code/ */
void api_events_of(struct request *r);
/* api_webhooks.c; the same handlers answer below /events/webhooks in E2B's words */
void api_webhooks_list(struct request *r);
void api_webhooks_get(struct request *r);
void api_webhooks_create(struct request *r);
void api_webhooks_change(struct request *r);
void api_webhooks_remove(struct request *r);
void api_webhooks_test(struct request *r);
void api_keys_list(struct request *r);
void api_keys_create(struct request *r);
void api_keys_rename(struct request *r);
void api_keys_revoke(struct request *r);
void api_usage(struct request *r);
void api_identity_keys(struct request *r);
void api_identity_configuration(struct request *r);
void api_secrets_list(struct request *r);
void api_secrets_create(struct request *r);
void api_secrets_get(struct request *r);
void api_secrets_update(struct request *r);
void api_secrets_remove(struct request *r);
void api_sealing_rotate(struct request *r);
void api_approvals_list(struct request *r);
void api_approvals_get(struct request *r);
void api_approvals_decide(struct request *r);
void api_approvals_end(struct request *r);
void api_approval_page(struct request *r);
void api_approval_link(struct request *r);
void api_operator(struct request *r); /* operator.h */
void api_operator_revoke(struct request *r);
void api_operator_usage(struct request *r);

/* --- shared by the handlers --- */

/* Makes a sandbox for one request. It ends with the request. The body is that of POST
 * /v2/sandboxes; this function may add placeholders to it. The sandbox lives grace_ns longer than
 * the body asks for. Returns false if the request was answered. */
bool api_create_transient(struct request *r, json_t *body, uint64_t grace_ns, instance_made made,
	void *arg, struct instance_maker **ret);

/* Reads what a sandbox is to be made of, and keeps it for when the request may be gone. The body is
 * that of POST /v2/sandboxes, without a source. Returns NULL if it answered the request. */
struct api_creation;
struct api_creation_of {
	const char *template, *alias; /* borrowed for its life: the directory, and its name */
	const char *authority;	      /* likewise: of instance_order, or NULL */
	const json_t *placeholders;   /* of the body's secrets (bindings.h), or NULL */
};
struct api_creation *api_creation_take(
	struct request *r, json_t *body, const struct api_creation_of *of);
const struct instance_order *api_creation_order(const struct api_creation *c);
void api_creation_free(struct api_creation *c); /* NULL is fine */

/* Returns the row of the sandbox that r->params[0] names, if the client may see it and it is not
 * being killed. Otherwise answers 404 and returns NULL. Free it with store_sandbox_free(). */
struct store_sandbox *api_find(struct request *r);

/* Finds the template that a client's word means, also of another team. A template of the operator
 * need not exist, unless it is called with a tag. Returns false if it answered the request. */
bool api_usable_template(struct request *r, const char *given, struct template_ref *ret_ref,
	struct found_template *ret);

/* Finds a template that the client may change: its own, or of the operator's socket any that a
 * client built. Returns false if it answered: with 403 for others, with 404 for none. */
bool api_own_template(struct request *r, const char *given, struct template_ref *ret_ref,
	struct found_template *ret);

/* Handles DELETE of a template that the client built. */
void api_catalog_delete(struct request *r, const struct store_catalog *c);

/* Reads from the query the lowest level of log entries to list. Returns false if it answered the
 * request. */
bool api_take_log_level(struct request *r, unsigned *ret);
/* Lists entries of a build's log. *ret_last becomes the number of the last one, if there are any;
 * ret_last may be NULL. Returns NULL if it answered the request. */
struct store_build_log_filter;
json_t *api_build_entries(
	struct request *r, const struct store_build_log_filter *f, uint64_t *ret_last);

/* Reads a tag from a request's body. Returns false if it answered the request. */
bool api_take_tag(struct request *r, const json_t *v, char ret[TEMPLATE_TAG_MAX + 1]);

/* Whether the client may read the events of the sandbox that r->params[0] names. It may if the
 * sandbox exists, or if events of it are still stored. Otherwise answers 404. */
bool api_find_logged(struct request *r, char id[ROUTE_SANDBOX_ID_MAX + 1]);

/* Whether the name has no namespace, or that of the request's key: its team's id or name. */
bool api_is_own_name(const struct request *r, const struct template_ref *ref);
/* For another namespace, answers 400 and returns false. */
bool api_check_namespace(struct request *r, const struct template_ref *ref);

/* Answers 404 for the sandbox that r->params[0] names. */
void api_refuse_absent(struct request *r);

/* Returns the instance of a running sandbox. If the sandbox does not run, answers 409 and returns
 * NULL. */
struct instance *api_find_running(struct request *r, const struct store_sandbox *sb);
/* The same, with E2B's text if the sandbox is paused: `before`, its ID, `after`. */
struct instance *api_find_running_else(
	struct request *r, const struct store_sandbox *sb, const char *before, const char *after);

/* An answer that a callback gives later. The client may go in the meantime. The callback owns it
 * and must call api_deferred_take(), which returns the request, or NULL if the client has gone. */
struct api_deferred;
/* Returns zeroed memory for a deferred answer, or NULL if it answered with 503. */
void *api_calloc(struct request *r, size_t bytes);
struct api_deferred *api_defer(struct request *r); /* NULL if it answered with 503 */
struct request *api_deferred_take(struct api_deferred *d);

/* Finds the key's snapshot that a client names by id, or by name and tag (protocol section 2.2).
 * The id of one that has a name stands for that name, and the id of a build for a tag. Returns 0,
 * -ENOENT if the key has no such snapshot, or an error of the store. */
struct store_snapshot;
int api_find_snapshot(const struct request *r, const struct template_ref *ref,
	struct store_snapshot *ret, struct error *e);
/* Makes the list of its names, NAME:TAG, in the order in which it got them. NULL when the store
 * fails or out of memory. */
json_t *api_snapshot_names(struct store *s, const struct store_snapshot *sn);

/* Parses a body that is an object. No body counts as `{}`. Returns NULL if it answered with 400. */
json_t *api_body(struct request *r, const char *body, size_t n);
/* Reads an integer member. Returns 0, -ENOENT if it is missing or null, or -EINVAL. */
int api_integer(const json_t *object, const char *key, int64_t *ret);

/* Whether the sandbox was paused while its agent did not answer. */
bool api_is_unresponsive(const struct store_sandbox *sb);
/* What clients see as the template's id: the snapshot's, of a sandbox that was made from one. */
json_t *api_template_id_json(const struct store_sandbox *sb);
/* The body of answers to create and connect (protocol: Sandbox). */
json_t *api_sandbox_json(const struct request *r, const struct store_sandbox *sb);
json_t *api_time(uint64_t ns);
/* Makes a JSON string of bytes. Each byte that is not UTF-8 becomes U+FFFD. Returns NULL when out
 * of memory. */
json_t *api_text(const void *s, size_t n);
/* Reads a boolean member. *ret holds the default before the call. Returns false if it answered the
 * request. */
bool api_take_flag(struct request *r, const json_t *object, const char *key, bool *ret);
/* Reads a word of the query, 1 or 0. The same. */
bool api_take_query_flag(struct request *r, const char *name, bool *ret);
/* Whether the client wants server-sent events: it accepts them, or says so in its query or body
 * (`stream`). Returns false if it answered the request. */
bool api_take_stream(struct request *r, const json_t *body, bool *ret);
/* Reads `env`, an object of names and texts, as NAME=VALUE. *ret_env owns the strings, *ret borrows
 * them. Returns false if it answered the request. Call api_env_free() in any case. */
bool api_take_env(
	struct request *r, const json_t *body, char ***ret_env, struct agent_strings *ret);
void api_env_free(char **env); /* NULL is fine */
/* Reads allow_internet_access. Returns false if it answered the request. */
bool api_take_internet(struct request *r, const json_t *body, enum store_internet *ret);
/* Checks a network object (policy/network_check.h). Returns false if it answered: with 400, or with
 * 501 for what this version does not serve. */
bool api_check_network(struct request *r, const json_t *network, enum store_internet internet);
/* Removes from a network object, of a sandbox or a version, what clients may not read. NULL is
 * fine. */
void api_network_hide(json_t *network);
/* Returns the network object as clients see it, without passwords, or NULL if none was given. */
json_t *api_network_json(const struct store_sandbox *sb);
/* Returns the limits above it (policy/network_shown.h), or NULL if there are none. */
json_t *api_network_floors_json(const struct request *r, const struct store_sandbox *sb);

/* Returns the sandbox's policy, or NULL if it has none. */
json_t *api_policy_json(const struct store_sandbox *sb);
/* Reads seconds, at least 0, from the body's `key`. *ret_s holds the default before the call.
 * Returns false if it answered the request. */
bool api_take_seconds(
	struct request *r, const json_t *body, const char *key, bool required, int64_t *ret_s);
/* The same, of a life that begins: more than 0. */
bool api_take_life(
	struct request *r, const json_t *body, const char *key, bool required, int64_t *ret_s);
/* Moves a running sandbox's deadline to s seconds from now, but never earlier. Returns false if it
 * answered the request. */
bool api_extend(struct request *r, struct store_sandbox *sb, int64_t s);
/* Reads the query's limit, from 1 to max. Returns `otherwise` if there is none, and 0 if it
 * answered with 400. */
uint32_t api_limit(struct request *r, uint32_t max, uint32_t otherwise);
/* Reads a Unix time from the query, in units of unit_ns. *ret_ns holds the default before the call.
 * Returns false if it answered the request. */
bool api_take_time(struct request *r, const char *name, uint64_t unit_ns, uint64_t *ret_ns);
/* Reads a text from the query into out, "" if there is none. Returns false if it answered the
 * request: the text is longer than cap - 1 bytes, or not UTF-8. */
bool api_take_query(struct request *r, const char *name, char *out, size_t cap);
/* Reads the direction of logs; the default is backward. Returns false if it answered the
 * request. */
bool api_take_direction(struct request *r, bool *ret_backward);
/* Reads a number from the query, 0 if it is missing or empty. Returns false if it answered the
 * request, with `refusal`. */
bool api_take_number(struct request *r, const char *name, const char *refusal,
	unsigned long long max, unsigned long long *ret);

#endif
