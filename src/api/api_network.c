/* The network of a sandbox (docs/network.md). */
#include "network/network.h"

#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "fleet/fleet_of.h"
#include "fleet/instance.h"
#include "http/reply.h"
#include "lifecycle/freeze.h"
#include "network/decisions.h"
#include "network/egress.h"
#include "network/references.h"
#include "network/trust.h"
#include "policy/network_check.h"
#include "policy/network_shown.h"
#include "proto/json_tree.h"
#include "rules/rules.h"
#include "store/keys.h"

bool api_take_internet(struct request *r, const json_t *body, enum store_internet *ret)
{
	const json_t *v = json_object_get(body, "allow_internet_access");
	bool allowed = true;

	if (!v || json_is_null(v))
		return true;
	if (!api_take_flag(r, body, "allow_internet_access", &allowed))
		return false;
	*ret = allowed ? STORE_INTERNET_ALLOWED : STORE_INTERNET_DENIED;
	return true;
}

bool api_check_network(struct request *r, const json_t *network, enum store_internet internet)
{
	struct error e = {0};

	if (network_check(network, internet == STORE_INTERNET_DENIED, fleet_of(r)->options.network,
		    &e) < 0) {
		reply_error(r, 400, "%s", e.message);
		return false;
	}
	return true;
}

/* What was given as null counts as not given, and clients may not read it. */
static void drop_nulls(json_t *object)
{
	const char *name;
	json_t *v;
	void *next;

	json_object_foreach_safe(object, next, name, v) if (json_is_null(v))(void)
		json_object_del(object, name); /* it is there */
}

void api_network_hide(json_t *network)
{
	json_t *proxy = json_object_get(network, "egressProxy");

	/* neither need be there */
	(void)json_object_del(proxy, "password");
	(void)json_object_del(json_object_get(proxy, "tls"), "caCert");
}

json_t *api_network_json(const struct store_sandbox *sb)
{
	json_t *network = json_tree_stored(sb->network_json);

	drop_nulls(json_object_get(network, "egressProxy"));
	drop_nulls(network);
	api_network_hide(network);
	/* a policy is shown beside it */
	if (json_object_del(network, "policy") == 0 && json_object_size(network) == 0) {
		json_decref(network);
		return NULL;
	}
	return network;
}

/* The template's is known while the sandbox runs. */
json_t *api_network_floors_json(const struct request *r, const struct store_sandbox *sb)
{
	const struct fleet *f = fleet_of(r);
	const struct instance *i = instance_find(fleet_of(r), sb->id);
	_cleanup_(store_key_freep) struct store_key *other = NULL;
	const struct store_key *key = r->key;
	struct network_floors floors = {f->options.network, NULL, i ? i->sandbox.network : NULL};

	if (strcmp(key->id, sb->key_id) != 0) /* the operator looks at it */
		key = store_key_get(f->store, sb->key_id, &other, NULL) == 0 ? other : NULL;
	if (key)
		floors.key = key->limits.network;
	return network_floors_shown(&floors);
}

/* A change is answered when the worker enforces it, and when the guest trusts the new authority. So
 * a client may rely on both after the answer. */
struct changing {
	struct api_deferred *deferred;
	unsigned waits;
};

static void finish(struct changing *c)
{
	struct request *r;

	if (--c->waits)
		return;
	r = api_deferred_take(c->deferred);
	if (r)
		reply_empty(r, 204);
	free(c);
}

static void on_applied(void *arg)
{
	finish(arg);
}

/* The policy holds in any case. */
static void on_trusted(void *arg, const struct error *why)
{
	static struct log_limit limit = LOG_LIMIT_INIT(20);

	if (why && log_limited(&limit)) /* a tenant's image may cause it */
		log_warn("cannot give a guest its authorities: %s", why->message);
	finish(arg);
}

static void answer_when_done(struct request *r, struct instance *i, bool trust)
{
	struct changing *c = api_calloc(r, sizeof(*c));

	if (!c)
		return;
	c->deferred = api_defer(r);
	if (!c->deferred) {
		free(c);
		return;
	}
	c->waits = 2 + trust;
	if (!egress_when_applied(i, on_applied, c))
		c->waits--;
	if (trust)
		trust_install(i, true, on_trusted, c);
	finish(c); /* ourselves */
}

static void change_running(
	struct request *r, struct instance *i, const json_t *update, enum store_internet internet)
{
	_cleanup_free_ char *before = i->authority ? strdup(i->authority) : NULL;
	struct error e = {0};
	bool same;

	if (network_change(i, update, internet, &e) < 0) {
		reply_failure(r, &e);
		return;
	}
	freeze_look(i); /* how it waits may have changed */
	same = before && i->authority ? strcmp(before, i->authority) == 0
				      : !before && !i->authority;
	/* also if nothing changed: the last try may have failed */
	answer_when_done(
		r, i, trust_is_wanted(i) || (i->fleet->options.backend->guest_root && !same));
}

static void change(struct request *r, json_t *update)
{
	enum store_internet internet = STORE_INTERNET_UNSAID;
	struct store_sandbox *sb = NULL;
	struct instance *i = NULL;

	(void)json_object_del(update, "httpsPorts"); /* not of this request: unknown, as others */
	if (api_take_internet(r, update, &internet) && api_check_network(r, update, internet))
		sb = api_find(r);
	if (sb)
		i = api_find_running(r, sb);
	store_sandbox_free(sb);
	if (i)
		change_running(r, i, update, internet);
}

static void take(struct request *r, const char *text, size_t n)
{
	json_t *update = api_body(r, text, n);

	if (update)
		change(r, update);
	json_decref(update);
}

void api_network(struct request *r)
{
	request_collect(r, API_BODY_MAX, take);
}

/* --- policies (docs/policy.md) --- */

json_t *api_policy_json(const struct store_sandbox *sb)
{
	json_t *network = json_tree_stored(sb->network_json);
	json_t *policy = json_incref(json_object_get(network, "policy"));

	json_decref(network);
	return policy;
}

/* With the decisions of people, which apply before anybody is asked. */
void api_policy_get(struct request *r)
{
	struct store_sandbox *sb = api_find(r);
	json_t *decisions, *policy, *answer;
	struct error e = {0};

	if (!sb)
		return;
	decisions = decisions_list(fleet_of(r), sb, &e);
	if (decisions) {
		policy = api_policy_json(sb);
		answer = json_pack("{s:I, s:o}", "generation", (json_int_t)sb->network_generation,
			"policy", policy ? policy : json_null());
		if (json_array_size(decisions))
			(void)json_object_set(answer, "decisions", decisions); /* or without */
		reply_json(r, 200, answer);
	} else {
		reply_failure(r, &e);
	}
	json_decref(decisions);
	store_sandbox_free(sb);
}

static void change_policy(struct request *r, json_t *policy)
{
	struct store_sandbox *sb = api_find(r);
	struct instance *i = sb ? api_find_running(r, sb) : NULL;
	struct error e = {0};

	store_sandbox_free(sb);
	if (!i)
		return;
	if (references_check(i->fleet, i->key_id, policy, &e) < 0 ||
		network_change_policy(i, policy, &e) < 0)
		reply_failure(r, &e);
	else
		answer_when_done(r, i,
			trust_is_wanted(i) ||
				(i->fleet->options.backend->guest_root && i->authority));
}

static void take_policy(struct request *r, const char *text, size_t n)
{
	json_t *policy = api_body(r, text, n);
	struct error e = {0};

	if (policy && rules_check(policy, "policy", &e) < 0)
		reply_error(r, 400, "%s", e.message);
	else if (policy)
		change_policy(r, policy);
	json_decref(policy);
}

void api_policy_put(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_policy);
}

void api_policy_delete(struct request *r)
{
	change_policy(r, NULL);
}
