/* Webhooks, in our words and in E2B's. A key's own receive events of its sandboxes; the
 * operator's receive events of all keys. */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api/api.h"
#include "api/auth.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "fleet/events.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "store/keys.h"
#include "store/webhooks.h"

enum {
	OF_KEY_MAX = 16, /* webhooks per key */
	SECRET_RAW = 24,
	SECRET_MIN = 16, /* minimum length of a given secret */
	SECRET_MAX = 256,
	TESTS_PER_SECOND = 5, /* of a key */
	TESTS_IN_ALL = 50,
};
#define SECRET_PREFIX "whsec_"

/* Two interfaces to the same webhooks: ours, and E2B's below /events/webhooks. */
static bool speaks_e2b(const struct request *r)
{
	return strncmp(r->pattern, "/events/", 8) == 0;
}

/* --- as JSON --- */

static json_t *types_json(uint32_t types)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < STORE_EVENT_TYPES_; i++)
		if (types & STORE_EVENT_BIT(i))
			(void)json_array_append_new(list, json_string(store_event_type_name(i)));
	return list;
}

/* E2B has one word for several of our types. types 0: all. */
static json_t *words_json(uint32_t types)
{
	json_t *list = json_array();
	uint32_t seen = 0;

	for (unsigned i = 0; i < STORE_EVENT_TYPES_; i++) {
		char word[WEBHOOK_TYPE_BYTES];
		uint32_t same;

		event_type_word(i, word);
		same = event_types_of(word);
		if ((types && !(types & STORE_EVENT_BIT(i))) || (seen & STORE_EVENT_BIT(i)))
			continue;
		seen |= same;
		(void)json_array_append_new(list, json_string(word));
	}
	return list;
}

/* Never contains the secret: only the creator sees it, once. */
static json_t *webhook_json(const struct store_webhook *w)
{
	return json_pack("{s:s, s:s, s:s, s:o, s:b, s:o, s:I, s:I, s:s?, s:s?}", "id", w->id,
		"name", w->name, "url", w->url, "events", types_json(w->types), "enabled",
		w->enabled, "createdAt", api_time(w->created_ns), "waiting", (json_int_t)w->queued,
		"dropped", (json_int_t)w->dropped, "lastError", w->last_error, "keyID", w->key_id);
}

static json_t *e2b_json(const struct store_webhook *w)
{
	return json_pack("{s:s, s:s?, s:s, s:o, s:b, s:s, s:o}", "id", w->id, "teamID", w->key_id,
		"name", w->name, "createdAt", api_time(w->created_ns), "enabled", w->enabled, "url",
		w->url, "events", words_json(w->types));
}

struct listing {
	json_t *list;
	json_t *(*json)(const struct store_webhook *w);
	const char *id; /* of the only one that is wanted, or NULL */
	uint32_t types; /* of the last one */
};

static int add_webhook(void *arg, const struct store_webhook *w)
{
	struct listing *l = arg;

	if (l->id && strcmp(l->id, w->id) != 0)
		return 0;
	l->types = w->types;
	return json_array_append_new(l->list, l->json(w)) < 0 ? -ENOMEM : 0;
}

/* NULL: answered. */
static json_t *list_of(struct request *r, const char *id, uint32_t *ret_types)
{
	struct listing l = {
		.list = json_array(), .json = speaks_e2b(r) ? e2b_json : webhook_json, .id = id};
	struct error e = {0};

	if (l.list &&
		store_webhook_list(fleet_of(r)->store, auth_scope(r), add_webhook, &l, &e) == 0) {
		if (ret_types)
			*ret_types = l.types;
		return l.list;
	}
	json_decref(l.list);
	reply_failure(r, &e);
	return NULL;
}

void api_webhooks_list(struct request *r)
{
	json_t *list = list_of(r, NULL, NULL);

	if (list)
		reply_json(r, 200, list);
}

/* The webhook that r->params[0] names, as JSON; NULL: answered. *ret_types may be NULL. */
static json_t *find(struct request *r, uint32_t *ret_types)
{
	json_t *list = list_of(r, r->params[0], ret_types);
	json_t *found = json_incref(json_array_get(list, 0));

	if (list && !found)
		reply_error(r, 404, "there is no webhook %.64s", r->params[0]);
	json_decref(list);
	return found;
}

void api_webhooks_get(struct request *r)
{
	json_t *one = find(r, NULL);

	if (one)
		reply_json(r, 200, one);
}

/* --- from JSON (false: answered) --- */

/* A mask of types; 0: there is no such word. */
static uint32_t types_of(const struct request *r, const char *word)
{
	enum store_event_type type;

	if (speaks_e2b(r))
		return event_types_of(word);
	return store_event_type_parse(word, &type) < 0 ? 0 : STORE_EVENT_BIT(type);
}

static bool take_type(struct request *r, const json_t *v, uint32_t *types)
{
	const char *word = json_string_value(v);
	uint32_t more = word ? types_of(r, word) : 0;

	if (!more)
		reply_error(r, 400, "'%.64s' is no type of event: %screated, killed, ...",
			word ? word : "", speaks_e2b(r) ? "sandbox.lifecycle." : "");
	*types |= more;
	return more;
}

static bool take_types(struct request *r, const json_t *body, uint32_t *types)
{
	const json_t *list = json_object_get(body, "events"), *one;
	bool must = speaks_e2b(r) && strcmp(r->head->method, "POST") == 0;
	size_t i;

	if (!list && !must)
		return true;
	if (!json_is_array(list) || (speaks_e2b(r) && json_array_size(list) == 0)) {
		reply_error(r, 400, "events must be a list of types");
		return false;
	}
	*types = 0;
	json_array_foreach(list, i, one) if (!take_type(r, one, types)) return false;
	return true;
}

/* *name stays NULL if none is given. */
static bool take_name(struct request *r, const json_t *body, const char **name)
{
	const json_t *v = json_object_get(body, "name");
	size_t n = json_string_length(v);

	if (!v || json_is_null(v))
		return true;
	*name = json_string_value(v);
	if (!*name || n < 1 || n > STORE_WEBHOOK_NAME_MAX || strlen(*name) != n) {
		reply_error(r, 400, "name must have 1 to %d characters", STORE_WEBHOOK_NAME_MAX);
		return false;
	}
	return true;
}

static bool is_url(const char *url)
{
	CURLU *u = curl_url();
	char *scheme = NULL, *host = NULL, *user = NULL;
	bool good = u && strlen(url) < STORE_URL_MAX &&
		    curl_url_set(u, CURLUPART_URL, url, 0) == 0 &&
		    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == 0 &&
		    curl_url_get(u, CURLUPART_HOST, &host, 0) == 0 && *host &&
		    curl_url_get(u, CURLUPART_USER, &user, 0) != 0 &&
		    (strcmp(scheme, "https") == 0 || strcmp(scheme, "http") == 0);

	curl_free(scheme);
	curl_free(host);
	curl_free(user);
	curl_url_cleanup(u);
	return good;
}

static bool take_url(struct request *r, const json_t *body, const char **url)
{
	const json_t *v = json_object_get(body, "url");

	if (!v && *url)
		return true;
	*url = json_string_value(v);
	if (!*url || !is_url(*url)) {
		reply_error(r, 400, "url must be an http or https URL without a user");
		return false;
	}
	return true;
}

static const char *secret_name(const struct request *r)
{
	return speaks_e2b(r) ? "signatureSecret" : "secret";
}

/* *secret stays NULL if none is given. E2B accepts short ones. */
static bool take_secret(struct request *r, const json_t *body, const char **secret)
{
	const char *name = secret_name(r);
	const json_t *v = json_object_get(body, name);
	size_t n = json_string_length(v), min = speaks_e2b(r) ? 1 : SECRET_MIN;

	if (!v)
		return true;
	*secret = json_string_value(v);
	if (!*secret || n < min || n > SECRET_MAX || strlen(*secret) != n) {
		reply_error(r, 400, "%s must have %zu to %d characters", name, min, SECRET_MAX);
		return false;
	}
	return true;
}

static bool take_enabled(struct request *r, const json_t *body, bool *enabled)
{
	const json_t *v = json_object_get(body, "enabled");

	if (v && !json_is_boolean(v)) {
		reply_error(r, 400, "enabled must be true or false");
		return false;
	}
	if (v)
		*enabled = json_is_true(v);
	return true;
}

static bool take_all(struct request *r, const json_t *body, struct store_webhook *w)
{
	return take_name(r, body, &w->name) && take_url(r, body, &w->url) &&
	       take_secret(r, body, &w->secret) && take_types(r, body, &w->types) &&
	       take_enabled(r, body, &w->enabled);
}

/* --- create --- */

static bool has_room(struct request *r)
{
	json_t *list = r->admin ? json_array() : list_of(r, NULL, NULL);
	bool room = json_array_size(list) < OF_KEY_MAX;

	if (list && !room)
		reply_error(r, 400, "a key may have %d webhooks: remove one first", OF_KEY_MAX);
	json_decref(list);
	return list && room;
}

static void make_secret(char out[sizeof(SECRET_PREFIX) + 2 * SECRET_RAW])
{
	uint8_t raw[SECRET_RAW] = {0};

	(void)!getrandom(raw, sizeof(raw), 0); /* cannot fail for so few bytes */
	memcpy(out, SECRET_PREFIX, sizeof(SECRET_PREFIX) - 1);
	str_hex(raw, sizeof(raw), out + sizeof(SECRET_PREFIX) - 1);
	explicit_bzero(raw, sizeof(raw));
}

static void add(struct request *r, struct store_webhook *w)
{
	char id[STORE_UUID_BYTES], secret[sizeof(SECRET_PREFIX) + 2 * SECRET_RAW];
	struct error e = {0};
	json_t *made;

	if (!w->name)
		w->name = "";
	if (!w->secret) {
		make_secret(secret);
		w->secret = secret;
	}
	if (store_webhook_add(fleet_of(r)->store, w, id, &e) < 0) {
		reply_failure(r, &e);
		return;
	}
	w->id = id;
	made = speaks_e2b(r) ? e2b_json(w) : webhook_json(w);
	if (made && (w->secret == secret || !speaks_e2b(r)))
		(void)json_object_set_new(made, secret_name(r), json_string(w->secret));
	reply_json(r, 201, made);
}

static void create_with(struct request *r, const char *text, size_t n)
{
	struct store_webhook w = {
		.key_id = auth_scope(r), .enabled = true, .created_ns = clock_realtime_ns()};
	json_t *body = api_body(r, text, n);

	if (body && take_all(r, body, &w) && has_room(r))
		add(r, &w);
	json_decref(body);
}

void api_webhooks_create(struct request *r)
{
	request_collect(r, API_BODY_MAX, create_with);
}

/* --- change, remove, test --- */

static void reply_changed(struct request *r)
{
	json_t *now = speaks_e2b(r) ? find(r, NULL) : NULL;

	if (now)
		reply_json(r, 200, now);
	else if (!speaks_e2b(r))
		reply_empty(r, 204);
}

static void change(struct request *r, const json_t *old, uint32_t types, const json_t *body)
{
	struct store_webhook w = {
		.types = types,
		.url = json_string_value(json_object_get(old, "url")),
		.enabled = json_is_true(json_object_get(old, "enabled")),
	};
	struct error e = {0};

	if (!take_all(r, body, &w))
		return;
	if (store_webhook_update(fleet_of(r)->store, r->params[0], &w, &e) < 0) {
		reply_failure(r, &e);
		return;
	}
	event_queued(fleet_of(r));
	reply_changed(r);
}

static void change_with(struct request *r, const char *text, size_t n)
{
	uint32_t types = 0;
	json_t *body = api_body(r, text, n), *old = body ? find(r, &types) : NULL;

	if (old)
		change(r, old, types, body);
	json_decref(old);
	json_decref(body);
}

void api_webhooks_change(struct request *r)
{
	request_collect(r, API_BODY_MAX, change_with);
}

void api_webhooks_remove(struct request *r)
{
	json_t *one = find(r, NULL);
	struct error e = {0};

	if (!one)
		return;
	if (store_webhook_remove(fleet_of(r)->store, r->params[0], &e) < 0)
		reply_failure(r, &e);
	else
		reply_empty(r, speaks_e2b(r) ? 200 : 204);
	json_decref(one);
}

/* Each is a delivery that its sender chose the time of. */
static bool may_test(struct request *r)
{
	struct error e = {0};

	if (key_rates_take(&fleet_of(r)->webhook_tests, auth_scope(r), TESTS_PER_SECOND,
		    TESTS_IN_ALL, clock_monotonic_ns()))
		return true;
	(void)error_set(&e, ERROR_TOO_MANY, EAGAIN,
		"test deliveries are asked for too often: a key may have %d in a second, all "
		"together %d. Try again",
		TESTS_PER_SECOND, TESTS_IN_ALL);
	reply_failure(r, &e);
	return false;
}

/* Queues a test delivery like an event, so that it shows the state of the queue. */
void api_webhooks_test(struct request *r)
{
	uint64_t now = clock_realtime_ns();
	_cleanup_free_ char *payload = webhook_test_payload(now);
	json_t *one = find(r, NULL);
	struct error e = {0};

	if (!one)
		return;
	json_decref(one);
	if (!may_test(r))
		return;
	if (!payload) {
		reply_error(r, 503, "out of memory");
	} else if (store_delivery_queue_for(fleet_of(r)->store, r->params[0], payload, now, &e) <
		   0) {
		reply_failure(r, &e);
	} else {
		event_queued(fleet_of(r));
		reply_empty(r, 202);
	}
}
