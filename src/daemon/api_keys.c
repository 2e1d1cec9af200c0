/* Teams and API keys (protocol section 2.15). Keys are made and revoked on the admin socket only.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/api.h"
#include "daemon/daemon.h"
#include "daemon/reply.h"
#include "store/keys.h"

static int add_team(void *arg, const struct store_team *t)
{
	/* the key's secret is not known to us: its holder has it */
	return json_array_append_new(
		       arg, json_pack("{s:s, s:s, s:s, s:b}", "teamID", t->id, "name", t->name,
				    "apiKey", "", "isDefault", t->is_default)) < 0
		       ? -ENOMEM
		       : 0;
}

void api_teams(struct request *r)
{
	json_t *list = json_array();
	struct error e = {0};

	if (store_team_list(r->daemon->store, add_team, list, &e) < 0) {
		json_decref(list);
		reply_failure(r, &e);
	} else {
		reply_json(r, 200, list);
	}
}

static json_t *key_json(const struct store_key *k)
{
	json_t *root = json_pack("{s:s, s:s, s:o, s:o, s:{s:s, s:i, s:s, s:s}}", "id", k->id,
		"name", k->name, "createdAt", api_time(k->created_ns), "lastUsed",
		k->last_used_ns ? api_time(k->last_used_ns) : json_null(), "mask", "prefix",
		k->mask_prefix, "valueLength", (int)k->mask_value_length, "maskedValuePrefix",
		k->mask_first, "maskedValueSuffix", k->mask_last);

	return root;
}

static int add_key(void *arg, const struct store_key *k)
{
	if (k->revoked_ns)
		return 0;
	return json_array_append_new(arg, key_json(k)) < 0 ? -ENOMEM : 0;
}

void api_keys_list(struct request *r)
{
	json_t *list = json_array();
	struct error e = {0};

	if (store_key_list(r->daemon->store, r->admin ? NULL : r->key->team_id, add_key, list, &e) <
		0) {
		json_decref(list);
		reply_failure(r, &e);
	} else {
		reply_json(r, 200, list);
	}
}

static void send_created(struct request *r, const char *id, const char *secret)
{
	struct store_key *k = NULL;
	struct error e = {0};
	json_t *root;

	if (store_key_get(r->daemon->store, id, &k, &e) < 0) {
		reply_failure(r, &e);
		return;
	}
	root = key_json(k);
	/* without the secret the answer is of no use, but the key can be revoked */
	(void)json_object_set_new(root, "key", json_string(secret));
	reply_json(r, 201, root);
	store_key_free(k);
}

static uint64_t limit_of(const json_t *body, const char *name)
{
	json_int_t v = json_integer_value(json_object_get(body, name));

	return v > 0 && v <= UINT32_MAX ? (uint64_t)v : 0;
}

static void take_create(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n);
	const char *name = json_string_value(json_object_get(body, "name"));
	const struct store_limits limits = {
		.max_sandboxes = (uint32_t)limit_of(body, "maxSandboxes"),
		.creates_per_minute = (uint32_t)limit_of(body, "createsPerMinute"),
		.max_timeout_ns = limit_of(body, "maxTimeout") * NS_PER_S,
	};
	char id[STORE_UUID_BYTES], secret[STORE_KEY_SECRET_BYTES];
	struct error e = {0};

	if (!body)
		return;
	if (store_key_create(r->daemon->store, name ? name : "", NULL, &limits, clock_realtime_ns(),
		    id, secret, &e) < 0)
		reply_failure(r, &e);
	else
		send_created(r, id, secret);
	explicit_bzero(secret, sizeof(secret));
	json_decref(body);
}

void api_keys_create(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_create);
}

static void take_rename(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n);
	const char *name = json_string_value(json_object_get(body, "name"));
	struct error e = {0};

	if (!body)
		return;
	if (store_key_rename(r->daemon->store, r->params[0], name ? name : "", &e) < 0)
		reply_failure(r, &e);
	else
		reply_empty(r, 200);
	json_decref(body);
}

void api_keys_rename(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_rename);
}

void api_keys_revoke(struct request *r)
{
	struct error e = {0};

	if (store_key_revoke(r->daemon->store, r->params[0], clock_realtime_ns(), &e) < 0)
		reply_failure(r, &e);
	else
		reply_empty(r, 204);
}
