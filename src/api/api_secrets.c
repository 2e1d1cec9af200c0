/* Secrets (docs/network.md). Each key has its own; no answer has a value. */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "fleet/fleet.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "network/renewal.h"
#include "network/sealing.h"
#include "network/secrets.h"
#include "policy/seal.h"
#include "proto/base64.h"
#include "proto/json_tree.h"
#include "store/keys.h"

enum { TOKEN_MAX = 256 };

/* --- as JSON --- */

static json_t *secret_json(const struct store_secret *s)
{
	return json_pack("{s:s, s:s, s:I, s:o, s:o, s:o}", "secretID", s->id, "name", s->name,
		"currentVersion", (json_int_t)s->version, "metadata",
		json_tree_stored(s->metadata_json), "createdAt", api_time(s->created_ns),
		"updatedAt", api_time(s->updated_ns));
}

static int take_json(void *arg, const struct store_secret *s)
{
	json_t **ret = arg;

	*ret = secret_json(s);
	return *ret ? 0 : -ENOMEM;
}

static void refuse(struct request *r, const struct error *e)
{
	if (e->code == ERROR_TOO_MANY)
		reply_error_code(r, 400, "secret_limit_reached", e->message);
	else
		reply_failure(r, e);
}

/* name: an id or a name as it is stored. */
static void reply_secret(struct request *r, unsigned status, const char *name)
{
	json_t *json = NULL;
	struct error e = {0};

	if (store_secret_get(fleet_of(r)->store, r->key->id, name, take_json, &json, &e) < 0)
		refuse(r, &e);
	else
		reply_json(r, status, json);
}

/* --- get, list --- */

/* The path's id or name, as it is stored. False: answered. */
static bool take_path(struct request *r, char ret[STORE_SECRET_NAME_MAX + 1])
{
	const char *given = r->params[0];

	if (strncmp(given, "sec_", 4) == 0 && strlen(given) <= STORE_SECRET_NAME_MAX)
		(void)snprintf(ret, STORE_SECRET_NAME_MAX + 1, "%s", given); /* fits */
	else if (secret_take_name(given, ret, NULL) < 0) {
		reply_error(r, 404, "there is no secret %.64s", given);
		return false;
	}
	return true;
}

void api_secrets_get(struct request *r)
{
	char name[STORE_SECRET_NAME_MAX + 1];

	if (take_path(r, name))
		reply_secret(r, 200, name);
}

static int add_one(void *arg, const struct store_secret *s)
{
	return json_array_append_new(arg, secret_json(s)) < 0 ? -ENOMEM : 0;
}

/* The name that the page before ended with. False: answered. */
static bool take_token(struct request *r, char ret[STORE_SECRET_NAME_MAX + 1])
{
	char token[TOKEN_MAX];
	uint8_t name[TOKEN_MAX];
	int n = uri_query_get(r->head->query, "nextToken", token, sizeof(token));
	ptrdiff_t len = n > 0 ? base64_decode(name, token, (size_t)n) : 0;

	ret[0] = '\0';
	if (n == -ENOENT || n == 0)
		return true;
	if (n < 0 || len <= 0 || len > STORE_SECRET_NAME_MAX || memchr(name, '\0', (size_t)len)) {
		reply_error(r, 400,
			"the page token is malformed; use the X-Next-Token of the page before");
		return false;
	}
	memcpy(ret, name, (size_t)len);
	ret[len] = '\0';
	return true;
}

void api_secrets_list(struct request *r)
{
	char after[STORE_SECRET_NAME_MAX + 1], next[TOKEN_MAX] = "";
	uint32_t limit = api_limit(r, STORE_SECRETS_PAGE_MAX, STORE_SECRETS_PAGE_MAX);
	struct http_field field = {"X-Next-Token", next};
	const char *last;
	struct error e = {0};
	json_t *list;

	if (!limit || !take_token(r, after))
		return;
	list = json_array();
	if (store_secret_list(fleet_of(r)->store, r->key->id, after, limit + 1, add_one, list, &e) <
		0) {
		json_decref(list);
		reply_failure(r, &e);
		return;
	}
	if (json_array_size(list) > limit) {
		(void)json_array_remove(list, limit); /* it is there */
		last = json_string_value(json_object_get(json_array_get(list, limit - 1), "name"));
		next[base64_encode_url(next, last, strlen(last))] = '\0';
	}
	reply_json_fields(r, 200, list, &field, *next ? 1 : 0);
}

/* --- changes --- */

static void wipe(json_t *body, const char *text, size_t n)
{
	secret_wipe(json_object_get(body, "value"));
	OPENSSL_cleanse((char *)text, n); /* the request's own, of which we are the only user */
	json_decref(body);
}

/* False: answered. */
static bool take_words(struct request *r, const json_t *body, struct secret_words *w)
{
	const json_t *value = json_object_get(body, "value");

	w->value = json_string_value(value);
	w->value_bytes = json_string_length(value);
	w->metadata = json_object_get(body, "metadata");
	if (!w->value)
		reply_error(r, 400, "value must be a string");
	return w->value;
}

static void create(struct request *r, const json_t *body)
{
	struct secret_words w = {.name = json_string_value(json_object_get(body, "name"))};
	char id[STORE_SECRET_ID_BYTES], name[STORE_SECRET_NAME_MAX + 1];
	struct error e = {0};

	if (!take_words(r, body, &w))
		return;
	if (secret_create(fleet_of(r), r->key->id, &w, id, &e) < 0) {
		refuse(r, &e);
		return;
	}
	if (secret_take_name(w.name, name, NULL) == 0) /* always: it was made */
		renewal_begin(fleet_of(r), r->key->id, name);
	reply_secret(r, 201, id);
}

static void with_body(struct request *r, const char *text, size_t n,
	void (*act)(struct request *r, const json_t *body))
{
	json_t *body = api_body(r, text, n);

	if (body)
		act(r, body);
	wipe(body, text, n);
}

static void take_create(struct request *r, const char *text, size_t n)
{
	with_body(r, text, n, create);
}

void api_secrets_create(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_create);
}

static void update(struct request *r, const json_t *body)
{
	struct secret_words w = {.name = r->params[0]};
	char name[STORE_SECRET_NAME_MAX + 1];
	struct error e = {0};

	if (!take_words(r, body, &w))
		return;
	if (secret_update(fleet_of(r), r->key->id, &w, name, &e) < 0) {
		refuse(r, &e);
		return;
	}
	renewal_begin(fleet_of(r), r->key->id, name);
	reply_secret(r, 200, name);
}

static void take_update(struct request *r, const char *text, size_t n)
{
	with_body(r, text, n, update);
}

void api_secrets_update(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_update);
}

void api_secrets_remove(struct request *r)
{
	char name[STORE_SECRET_NAME_MAX + 1];
	struct error e = {0};

	if (secret_remove(fleet_of(r), r->key->id, r->params[0], name, &e) < 0) {
		refuse(r, &e);
		return;
	}
	renewal_begin(fleet_of(r), r->key->id, name);
	reply_empty(r, 204);
}

/* The operator's. */
void api_sealing_rotate(struct request *r)
{
	uint64_t count = 0;
	struct error e = {0};

	if (sealing_rotate(fleet_of(r), &count, &e) < 0)
		reply_failure(r, &e);
	else
		reply_json(r, 200, json_pack("{s:I}", "values", (json_int_t)count));
}
