/* The control API (protocol section 2; docs/api.md says what is served). */
#ifndef DAEMON_API_H
#define DAEMON_API_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "fleet/instance_make.h"
#include "http/request.h"
#include "store/sandboxes.h"

#define API_CLIENT_ID "6532622b" /* a constant of old, which clients require */

enum {
	API_BODY_MAX = 1024 * 1024,
	API_LIST_BYTES_MAX = 48 * 1024 * 1024, /* of an answer that is a list */
	API_TIMEOUT_V1_S = 15,
	API_TIMEOUT_V2_S = 300,
	API_PAGE_MAX = 100,
};

/* A request of the control API. */
void api_dispatch(struct request *r);

/* --- handlers --- */

void api_create_v1(struct request *r);
void api_create_v2(struct request *r);
void api_execute(struct request *r); /* api_execute.c */
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
void api_template_delete(struct request *r);
void api_metrics(struct request *r);
void api_metrics_many(struct request *r);
void api_logs_v1(struct request *r);
void api_logs_v2(struct request *r);
void api_templates_list(struct request *r);
void api_templates_page(struct request *r);
void api_templates_default(struct request *r);
void api_template_get(struct request *r);
void api_template_alias(struct request *r);
void api_teams(struct request *r);
void api_webhooks_list(struct request *r);
void api_webhooks_create(struct request *r);
void api_webhooks_change(struct request *r);
void api_webhooks_remove(struct request *r);
void api_webhooks_test(struct request *r);
void api_keys_list(struct request *r);
void api_keys_create(struct request *r);
void api_keys_rename(struct request *r);
void api_keys_revoke(struct request *r);
void api_usage(struct request *r);
void api_operator(struct request *r); /* operator.h */
void api_operator_revoke(struct request *r);
void api_operator_usage(struct request *r);

/* --- what they share --- */

/* Makes a sandbox for a request that needs one while it lasts. The body is that of POST
 * /v2/sandboxes; the sandbox lives grace_ns longer than that asks for. False: answered. */
bool api_create_transient(struct request *r, const json_t *body, uint64_t grace_ns,
	instance_made made, void *arg, struct instance_maker **ret);

/* The row of the sandbox that r->params[0] names, if it is the asker's and not being killed;
 * otherwise answers 404 and returns NULL. Free it with store_sandbox_free. */
struct store_sandbox *api_find(struct request *r);

/* The template's name from a name or an id that a client gave; false: answered. It need not be
 * there.
 */
bool api_template_name(struct request *r, const char *given, char ret[STORE_NAME_MAX + 1]);

/* The instance of a sandbox that runs; otherwise answers 409 and returns NULL. */
struct instance *api_find_running(struct request *r, const struct store_sandbox *sb);

/* An answer that comes from a callback, while the client may go. The callback owns it until it
 * calls api_deferred_take(), which gives the request, or NULL when the client has gone. */
struct api_deferred;
/* Zeroed memory for what a request needs until then; NULL: answered with 503. */
void *api_calloc(struct request *r, size_t bytes);
struct api_deferred *api_defer(struct request *r); /* NULL: answered with 503 */
struct request *api_deferred_take(struct api_deferred *d);

/* The snapshot that a client names by id, or name and tag (protocol section 2.2): 0, -ENOENT when
 * the key has none such, or an error of the store. */
struct store_snapshot;
struct template_ref;
int api_find_snapshot(const struct request *r, const struct template_ref *ref,
	struct store_snapshot *ret, struct error *e);

/* An object of a body, where none is `{}`; NULL: answered with 400. */
json_t *api_body(struct request *r, const char *body, size_t n);
/* An integer of a body: -ENOENT when it is missing or null, -EINVAL. */
int api_integer(const json_t *object, const char *key, int64_t *ret);

/* Paused while its agent did not answer. */
bool api_is_unresponsive(const struct store_sandbox *sb);
/* Body of create and connect (protocol: Sandbox). */
json_t *api_sandbox_json(const struct request *r, const struct store_sandbox *sb);
json_t *api_time(uint64_t ns);
/* A boolean of a body: *ret is the default, and what was given. False: answered. */
bool api_take_flag(struct request *r, const json_t *object, const char *key, bool *ret);
/* Seconds of a body's `key`: *ret_s is the default, and what was given. False: answered. */
bool api_take_seconds(
	struct request *r, const json_t *body, const char *key, bool required, int64_t *ret_s);
/* A later deadline of a running sandbox, never a sooner one. False: answered. */
bool api_extend(struct request *r, struct store_sandbox *sb, int64_t s);
/* A limit in the query: 1 to max, `otherwise` when there is none; 0: answered with 400. */
uint32_t api_limit(struct request *r, uint32_t max, uint32_t otherwise);

#endif
