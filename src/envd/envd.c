#include "envd/envd.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "envd/envd_absent.h"
#include "envd/envd_call.h"
#include "envd/envd_http.h"
#include "envd/envd_rpc.h"
#include "envd/envd_words.h"
#include "fleet/fleet_of.h"
#include "proto/json_text.h"
#include "proto/signature.h"
#include "proto/uri.h"

enum { PARAMETER_MAX = 4096 };

/* This and the refusals of signatures are E2B's texts. */
#define UNAUTHORIZED                                                                               \
	"unauthorized access, please provide a valid access token or method signing if supported"

enum access {
	ACCESS_TOKEN, /* X-Access-Token */
	ACCESS_FILES, /* the token or a signature */
	ACCESS_OPEN,
};

static const struct endpoint {
	const char *path;
	const char *method;
	enum access access;
	void (*handle)(struct request *r, const struct instance *i);
} endpoints[] = {
	{"/health", "GET", ACCESS_OPEN, envd_health},
	{"/files", "GET", ACCESS_FILES, envd_get_file},
	{"/files", "HEAD", ACCESS_FILES, envd_get_file},
	{"/files", "POST", ACCESS_FILES, envd_post_files},
	{"/files/compose", "POST", ACCESS_TOKEN, envd_compose},
	{"/envs", "GET", ACCESS_TOKEN, envd_envs},
	{"/metrics", "GET", ACCESS_TOKEN, envd_metrics},
};

/* Paths for E2B's control plane only. They do nothing here. */
static bool is_control_path(const char *path)
{
	static const char *const paths[] = {
		"/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw"};

	for (unsigned i = 0; i < ARRAY_SIZE(paths); i++)
		if (strcmp(path, paths[i]) == 0)
			return true;
	return false;
}

/* --- refusals --- */

static void refuse(struct request *r, unsigned status, const char *message)
{
	struct envd_error e;

	(void)envd_fail(&e, CONNECT_UNKNOWN, "%s", message);
	e.status = status;
	envd_reply_error(r, r->route.sandbox_id, &e);
}

static void refuse_guess(struct request *r)
{
	static const char body[] =
		"{\"code\":429,\"message\":\"too many wrong signatures: try again in a second\"}";
	const struct http_field fields[] = {
		{"Access-Control-Allow-Origin", "*"}, {"Retry-After", "1"}};
	const struct http_reply reply = {.status = 429,
		.content_type = "application/json; charset=utf-8",
		.fields = fields,
		.field_count = ARRAY_SIZE(fields),
		.body = body,
		.len = sizeof(body) - 1};

	(void)request_reply(r, &reply); /* a failure means that the client has gone */
}

static void refuse_path(struct request *r, const char *message)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(8 * PARAMETER_MAX);
	size_t n = strnlen(r->head->path, PARAMETER_MAX);
	int err = buf_printf(&body, "{\"message\":\"%s\",\"path\":", message);

	if (!err)
		err = json_text_string(&body, r->head->path, n, JSON_TEXT_UTF8);
	if (!err)
		err = buf_add_str(&body, ",\"code\":404}");
	if (err)
		buf_clear(&body); /* out of memory: the status must do */
	envd_reply_json(r, 404, &body);
}

/* Browsers ask this before they send a token, so it needs neither token nor sandbox. */
static void reply_preflight(struct request *r)
{
	const char *wanted = http_header_get(&r->head->headers, "access-control-request-headers");
	const struct http_field fields[] = {
		{"Access-Control-Allow-Origin", "*"},
		{"Access-Control-Allow-Methods", "HEAD, GET, POST, PUT, PATCH, DELETE"},
		{"Access-Control-Allow-Headers", wanted ? wanted : "*"},
		{"Access-Control-Max-Age", "7200"},
		{"Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"},
	};
	const struct http_reply reply = {
		.status = 204, .fields = fields, .field_count = ARRAY_SIZE(fields)};

	(void)request_reply(r, &reply); /* a failure means that the client has gone */
}

/* --- signatures --- */

/* The query's parameters as they were signed; NULL if missing. */
struct signed_query {
	char path[PARAMETER_MAX + 1], user[AGENT_NAME_MAX + 1], expiration[32], signature[128];
	bool has_path, has_user, has_expiration, has_signature;
};

static bool parameter(const char *query, const char *key, char *out, size_t cap, bool *bad)
{
	int n = uri_query_get(query, key, out, cap);

	*bad = *bad || (n < 0 && n != -ENOENT);
	return n >= 0;
}

static bool read_query(const struct request *r, struct signed_query *q)
{
	const char *query = r->head->query;
	bool bad = false;

	q->has_path = parameter(query, "path", q->path, sizeof(q->path), &bad);
	q->has_user = parameter(query, "username", q->user, sizeof(q->user), &bad);
	q->has_expiration = parameter(
		query, "signature_expiration", q->expiration, sizeof(q->expiration), &bad);
	q->has_signature = parameter(query, "signature", q->signature, sizeof(q->signature), &bad);
	return !bad;
}

static struct signature_input signed_input(
	const struct request *r, const struct signed_query *q, const char *token)
{
	return (struct signature_input){
		.path = q->has_path ? q->path : NULL,
		.operation = strcmp(r->head->method, "POST") == 0 ? "write" : "read",
		.user = q->has_user ? q->user : NULL,
		.token = token,
		.expiration = q->has_expiration ? q->expiration : NULL,
	};
}

static enum signature_verdict check(
	const struct request *r, const struct signed_query *q, const char *token)
{
	const struct signature_input in = signed_input(r, q, token);

	return signature_check(&in, q->signature, (int64_t)(clock_realtime_ns() / NS_PER_S));
}

struct search {
	struct signature_search *signature;
	struct instance *found;
};

static int matches(struct instance *i, void *arg)
{
	struct search *s = arg;
	const char *token = instance_envd_token(i);

	if (token && signature_search_matches(s->signature, token))
		s->found = i;
	return s->found != NULL;
}

static struct instance *search_signed(struct request *r, const struct signed_query *q)
{
	const struct signature_input in = signed_input(r, q, NULL);
	struct search s = {.signature = signature_search_new(&in, q->signature)};

	if (s.signature)
		(void)instance_each(fleet_of(r), matches, &s); /* s.found has the result */
	signature_search_free(s.signature);
	return s.found;
}

/* Finds the sandbox of a signed URL. In single-port mode the URL names none, so it is the one whose
 * token made the signature. A wrong signature costs a hash per sandbox, so guesses are limited.
 * NULL: the request was answered. */
static struct instance *find_signed(struct request *r)
{
	struct signed_query q;
	struct instance *found = NULL;

	if (!request_may_guess(r)) {
		refuse_guess(r);
		return NULL;
	}
	if (read_query(r, &q) && q.has_signature)
		found = search_signed(r, &q);
	if (found) {
		strcpy(r->route.sandbox_id, instance_id(found)); /* the same bound */
		return found;
	}
	request_note_guess(r);
	refuse(r, 401, "invalid signature");
	return NULL;
}

/* --- access --- */

static bool allow_signature(struct request *r, const char *token)
{
	struct signed_query q;

	if (!read_query(r, &q)) {
		refuse(r, 400, "a parameter of the URL is malformed or too long");
		return false;
	}
	if (!q.has_signature) {
		refuse(r, 401, "missing signature query parameter");
		return false;
	}
	switch (check(r, &q, token)) {
	case SIGNATURE_GOOD:
		return true;
	case SIGNATURE_EXPIRED:
		refuse(r, 401, "signature is already expired");
		return false;
	default:
		refuse(r, 401, "invalid signature");
		return false;
	}
}

/* Returns false if refused. A wrong token is refused even with a good signature. */
static bool allow(struct request *r, const struct instance *i, enum access access)
{
	const char *token = instance_envd_token(i);
	const char *given = http_header_get(&r->head->headers, "x-access-token");

	if (access == ACCESS_OPEN || r->admin)
		return true;
	if (instance_is_revoked(i)) {
		refuse(r, 401, ENVD_TEXT_REVOKED);
		return false;
	}
	if (!token)
		return true;
	if (given) {
		if (secret_equal(given, token))
			return true;
		refuse(r, 401,
			access == ACCESS_FILES ? "access token present in header but does not match"
					       : UNAUTHORIZED);
		return false;
	}
	if (access == ACCESS_FILES)
		return allow_signature(r, token);
	refuse(r, 401, UNAUTHORIZED);
	return false;
}

/* --- dispatch --- */

static bool charge(struct request *r, const struct instance *i)
{
	return r->admin || request_charge_to(r, instance_key_id(i));
}

static void dispatch(struct request *r, const struct instance *i)
{
	const struct envd_method *m = envd_rpc_find(r->head->path);
	bool known = false;

	for (unsigned n = 0; n < ARRAY_SIZE(endpoints); n++) {
		const struct endpoint *p = &endpoints[n];

		if (strcmp(p->path, r->head->path) != 0)
			continue;
		known = true;
		if (strcmp(p->method, r->head->method) != 0)
			continue;
		if (!allow(r, i, p->access))
			return;
		request_meter(r, instance_id(i));
		if (charge(r, i))
			p->handle(r, i);
		return;
	}
	if (!allow(r, i, ACCESS_TOKEN))
		return;
	request_meter(r, instance_id(i));
	if (!charge(r, i))
		return;
	if (m)
		envd_rpc_dispatch(r, i, m);
	else if (known)
		refuse(r, 405, "this endpoint does not take that method");
	else
		refuse_path(r, "there is no such endpoint");
}

void envd_handle(struct request *r)
{
	const struct instance *i;

	if (strcmp(r->head->method, "OPTIONS") == 0) {
		reply_preflight(r);
		return;
	}
	if (is_control_path(r->head->path)) {
		refuse_path(r,
			"This endpoint is reserved for the E2B control plane and is not reachable "
			"through the sandbox URL");
		return;
	}
	i = r->route.kind == ROUTE_SIGNED ? find_signed(r)
					  : instance_find(fleet_of(r), r->route.sandbox_id);
	if (i)
		dispatch(r, i);
	else if (r->route.kind != ROUTE_SIGNED)
		envd_absent_reply(r);
}
