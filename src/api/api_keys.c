/* Teams, keys and usage of the client, and the operator's requests to the store (operator.h).
 *
 * A key may create, rename and revoke keys only if the operator allows it, because each new key has
 * its own limits, and its tier's minutes anew. A key can neither give more than it has nor pass
 * this right on. It reaches itself, the keys that it made, and those that these made, but no key
 * that may have more than it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agents/keep.h"
#include "api/api.h"
#include "api/key_json.h"
#include "api/operator.h"
#include "api/usage_json.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "catalog/jobs.h"
#include "fleet/fleet_of.h"
#include "fleet/limits.h"
#include "fleet/meter.h"
#include "http/reply.h"
#include "lifecycle/revocation.h"
#include "network/lockdown.h"
#include "network/renewal.h"
#include "proto/uri.h"
#include "store/keys.h"

enum { TEAM_KEYS_MAX = 1000 }; /* valid keys of a team that its keys made */

/* --- reading --- */

struct team_of {
	const char *id;
	json_t *list;
};

/* Lists only the client's own team, which is its default. */
static int add_team(void *arg, const struct store_team *t)
{
	const struct team_of *own = arg;

	if (strcmp(t->id, own->id) != 0)
		return 0;
	return json_array_append_new(own->list, team_json(t, true)) < 0 ? -ENOMEM : 0;
}

/* Takes ownership of list. */
static void send_list(struct request *r, int err, json_t *list, const struct error *e)
{
	if (err < 0)
		reply_failure(r, e);
	else
		reply_json(r, 200, json_incref(list));
	json_decref(list);
}

void api_teams(struct request *r)
{
	struct team_of own = {r->key->team_id, json_array()};
	struct error e = {0};
	int err = store_team_list(fleet_of(r)->store, add_team, &own, &e);

	send_list(r, err, own.list, &e);
}

static int add_key(void *arg, const struct store_key *k)
{
	if (k->revoked_ns)
		return 0;
	return json_array_append_new(arg, key_json(k, false)) < 0 ? -ENOMEM : 0;
}

void api_keys_list(struct request *r)
{
	json_t *list = json_array();
	struct error e = {0};
	int err = store_key_list(fleet_of(r)->store, r->key->team_id, add_key, list, &e);

	send_list(r, err, list, &e);
}

void api_usage(struct request *r)
{
	struct operation o = {.store = fleet_of(r)->store, .query = r->head->query};
	struct error e = {0};
	int err;

	meter_report_each(fleet_of(r), r->key->id, 0);
	err = usage_report(&o, r->key->id, &e);
	send_list(r, err, o.answer, &e);
}

/* --- keys that manage keys --- */

static bool may_manage(struct request *r)
{
	if (!r->key->limits.manages_keys)
		reply_error(r, 403,
			"this key may not manage keys: the operator can allow it (mayfly keys set "
			"%s --manage-keys=yes)",
			r->key->id);
	return r->key->limits.manages_keys;
}

static int count_key(void *arg, const struct store_key *k)
{
	*(unsigned *)arg += k->revoked_ns == 0;
	return 0;
}

static int check_count(struct request *r, struct error *e)
{
	unsigned n = 0;
	int err = store_key_list(fleet_of(r)->store, r->key->team_id, count_key, &n, e);

	if (err == 0 && n >= TEAM_KEYS_MAX)
		err = error_set(e, ERROR_LIMIT, ENOSPC,
			"the team has its maximum of %d keys: revoke some", TEAM_KEYS_MAX);
	return err;
}

/* The maker's limits, or lower ones if the body says so. */
static int take_limits(
	struct request *r, const json_t *body, struct store_limits *l, struct error *e)
{
	const struct store_limits *own = &r->key->limits;
	int err;

	*l = *own;
	l->manages_keys = false;
	err = key_limits_take(body, l, e);
	if (err == 0 && !limits_are_within(fleet_of(r), l, own))
		err = error_set(e, ERROR_FORBIDDEN, EPERM,
			"a key cannot have higher limits than the one that makes it");
	return err;
}

static void take_create(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n), *made = NULL;
	const char *name = json_string_value(json_object_get(body, "name"));
	struct store_limits l;
	struct error e = {0};
	int err;

	if (!body)
		return;
	err = take_limits(r, body, &l, &e);
	if (err == 0)
		err = check_count(r, &e);
	if (err == 0)
		err = key_json_create(fleet_of(r)->store,
			&(struct store_key_spec){.name = name ? name : "",
				.team_id = r->key->team_id,
				.made_by = r->key->id,
				.limits = &l},
			false, &made, &e);
	if (err < 0)
		reply_failure(r, &e);
	else
		reply_json(r, 201, made);
	json_decref(body);
}

void api_keys_create(struct request *r)
{
	if (may_manage(r))
		request_collect(r, API_BODY_MAX, take_create);
}

/* Whether the client made the key, or a key that it made did. Keys of the operator, and those whose
 * maker is not known, are nobody's. */
static bool is_below(struct request *r, const struct store_key *k)
{
	struct store_limits l = k->limits;

	l.manages_keys = false; /* the operator may have given it that */
	return store_key_descends(fleet_of(r)->store, k->id, r->key->id) &&
	       limits_are_within(fleet_of(r), &l, &r->key->limits);
}

/* Checks that the client reaches the key; otherwise answers. Keys that its list does not show are
 * not there. */
static bool find_reached(struct request *r)
{
	_cleanup_(store_key_freep) struct store_key *k = NULL;
	struct error e = {0};

	if (store_key_get(fleet_of(r)->store, r->params[0], &k, &e) < 0)
		reply_failure(r, &e);
	else if (strcmp(k->team_id, r->key->team_id) != 0 || strcmp(k->id, STORE_KEY_LOCAL) == 0)
		reply_error(r, 404, "no such API key");
	else if (strcmp(k->id, r->key->id) != 0 && !is_below(r, k))
		reply_error(r, 403,
			"this key did not make that key, or that key has higher limits: ask the "
			"operator (mayfly keys)");
	else
		return true;
	return false;
}

static void take_rename(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n);
	const char *name = json_string_value(json_object_get(body, "name"));
	struct error e = {0};

	if (!body)
		return;
	if (store_key_rename(fleet_of(r)->store, r->params[0], name ? name : "", &e) < 0)
		reply_failure(r, &e);
	else
		reply_empty(r, 200);
	json_decref(body);
}

void api_keys_rename(struct request *r)
{
	if (may_manage(r) && find_reached(r))
		request_collect(r, API_BODY_MAX, take_rename);
}

/* ?kill=true also ends its sandboxes. */
static void revoke_key(struct request *r)
{
	char kill[8];
	struct error e = {0};

	if (!api_take_query(r, "kill", kill, sizeof(kill)))
		return;
	if (*kill && strcmp(kill, "true") != 0 && strcmp(kill, "false") != 0)
		reply_error(r, 400, "kill must be true or false");
	else if (revocation_apply(fleet_of(r), r->params[0], strcmp(kill, "true") == 0, &e) < 0) {
		reply_failure(r, &e);
	} else {
		jobs_end_key(fleet_of(r), r->params[0]);
		agents_remove_key(fleet_of(r), r->params[0]);
		reply_empty(r, 204);
	}
}

void api_keys_revoke(struct request *r)
{
	if (may_manage(r) && find_reached(r))
		revoke_key(r);
}

/* --- the operator --- */

/* Puts into force what the store says now. Takes the answer. */
static void answer_lockdown(struct request *r, json_t *answer)
{
	struct error e = {0};

	if (lockdown_apply(fleet_of(r), &e) == 0) {
		reply_json(r, 200, answer);
		return;
	}
	json_decref(answer);
	reply_failure(r, &e);
}

/* Takes the answer. */
static void answer_operation(struct request *r, const json_t *body, json_t *answer)
{
	/* its sandboxes may reach less from now on, or more */
	if (strcmp(r->head->method, "PATCH") == 0 && json_object_get(body, "network"))
		renewal_begin(fleet_of(r), r->params[0], "");
	if (answer && strcmp(r->pattern, "/lockdown") == 0 && strcmp(r->head->method, "GET") != 0)
		answer_lockdown(r, answer);
	else if (answer)
		reply_json(r, strcmp(r->head->method, "POST") == 0 ? 201 : 200, answer);
	else
		reply_empty(r, 204);
}

static void take_operation(struct request *r, const char *text, size_t n)
{
	const char *query = r->head->query;
	_cleanup_free_ char *target =
		str_printf("%s%s%s", r->head->path, query ? "?" : "", query ? query : "");
	json_t *body = api_body(r, text, n), *answer = NULL;
	struct error e = {0};

	if (!body)
		return;
	if (!target)
		reply_error(r, 503, "out of memory");
	else if (operator_call(fleet_of(r)->store, r->head->method, target, body, &answer, &e) < 0)
		reply_failure(r, &e);
	else
		answer_operation(r, body, answer);
	json_decref(body);
}

void api_operator(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_operation);
}

void api_operator_revoke(struct request *r)
{
	revoke_key(r);
}

void api_operator_usage(struct request *r)
{
	meter_report_each(fleet_of(r), NULL, 0);
	api_operator(r);
}
