#include "network/network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "fleet/events.h"
#include "fleet/fleet.h"
#include "network/activity.h"
#include "network/interception.h"
#include "policy/intercept.h"
#include "policy/network_policy.h"
#include "policy/network_reach.h"
#include "proto/json_tree.h"
#include "store/keys.h"

bool network_is_off(const struct fleet *f)
{
	return f->options.network && f->options.network->mode == NETWORK_OFF;
}

/* With what is intercepted; takes that. */
static char *policy_line(const struct instance *i, const struct network_floors *floors,
	const json_t *network, json_t *intercept, struct egress_reach *ret)
{
	json_t *policy = network_policy(
		floors, network, i->internet == STORE_INTERNET_DENIED, i->network_generation);
	json_t *names = policy ? json_tree_stored(i->network_names_json) : NULL;
	char *line = NULL;

	network_reach(policy, ret);
	if (!policy || !intercept ||
		json_object_set(policy, "intercept", intercept) == 0) /* else it would pass */
		line = policy ? network_policy_line(policy, names) : NULL;
	else
		json_decref(policy);
	intercept_wipe(intercept);
	json_decref(intercept);
	return line;
}

char *network_policy_text(const struct instance *i, struct egress_reach *ret, struct error *e)
{
	json_t *network = json_tree_stored(i->network_json), *intercept = NULL;
	_cleanup_(store_key_freep) struct store_key *key = NULL;
	struct network_floors floors = {i->fleet->options.network, NULL, i->sandbox.network};
	char *line = NULL;
	/* without its rules, or its key's, it would be open */
	int r = i->network_json && !network ? -ENOMEM
					    : store_key_get(i->fleet->store, i->key_id, &key, e);

	r = r ? r : interception_policy(i, network, &intercept, e);
	if (r == 0) {
		floors.key = key->limits.network;
		line = policy_line(i, &floors, network, intercept, ret);
	}
	if (!line)
		(void)error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory"); /* the first wins */
	json_decref(network);
	return line;
}

int network_prepare(struct instance *i, struct error *e)
{
	json_t *network = json_tree_stored(i->network_json);
	char *sealed = NULL;
	int r = interception_authority(i, network, &sealed, e);

	json_decref(network);
	if (r < 0)
		return r;
	free(i->authority);
	i->authority = sealed;
	return 0;
}

/* The network object after an update; NULL: out of memory. */
static json_t *updated(const struct instance *i, const json_t *update)
{
	static const char *const names[] = {
		"allowOut", "denyOut", "dnsServers", "rules", "egressProxy", "allowIn"};
	json_t *network = i->network_json ? json_tree_stored(i->network_json) : json_object();
	int r = network ? 0 : -ENOMEM;

	for (size_t n = 0; r == 0 && n < ARRAY_SIZE(names); n++) {
		json_t *v = json_object_get(update, names[n]);

		if (v && !json_is_null(v))
			r = json_object_set(network, names[n], v) < 0 ? -ENOMEM : 0;
		else
			(void)json_object_del(network, names[n]); /* it may be absent */
	}
	/* clients that do not know it must not change it */
	if (r == 0 && json_is_object(json_object_get(update, "consent")))
		r = json_object_set(network, "consent", json_object_get(update, "consent"));
	if (r == 0)
		return network;
	json_decref(network);
	return NULL;
}

static int write_change(struct instance *i, const struct store_sandbox *row, struct error *e)
{
	int r = store_begin(i->fleet->store, e);

	if (r < 0)
		return r;
	r = store_sandbox_update(i->fleet->store, i->sandbox.id,
		STORE_STATE_BIT(STORE_RUNNING) | STORE_STATE_BIT(STORE_SNAPSHOTTING),
		STORE_SET_NETWORK | STORE_SET_AUTHORITY, row, NULL, e);
	if (r == 0)
		event_note(i->fleet, i->sandbox.id, i->key_id, i->template.id, STORE_EVENT_UPDATED,
			NULL);
	if (r == 0)
		r = store_commit(i->fleet->store, e);
	if (r < 0)
		store_rollback(i->fleet->store);
	return r;
}

/* Puts a network object into force. Takes it; NULL: out of memory. */
static int put_in_force(
	struct instance *i, json_t *network, enum store_internet internet, struct error *e)
{
	_cleanup_free_ char *text = network ? json_dumps(network, JSON_COMPACT) : NULL;
	_cleanup_free_ char *authority = NULL;
	struct store_sandbox row = {.network_json = text,
		.internet = internet,
		.network_generation = i->network_generation + 1};
	int r = text ? interception_authority(i, network, &authority, e)
		     : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	json_decref(network);
	row.authority = authority;
	if (r == 0)
		r = write_change(i, &row, e);
	if (r < 0)
		return r;
	free(i->network_json);
	i->network_json = TAKE_PTR(text);
	free(i->authority);
	i->authority = TAKE_PTR(authority);
	i->internet = internet;
	i->network_generation++;
	if (i->fleet->network_changed)
		i->fleet->network_changed(i);
	return 0;
}

int network_change(
	struct instance *i, const json_t *update, enum store_internet internet, struct error *e)
{
	return put_in_force(i, updated(i, update), internet, e);
}

int network_change_policy(struct instance *i, json_t *policy, struct error *e)
{
	json_t *network = i->network_json ? json_tree_stored(i->network_json) : json_object();

	if (network && policy && json_object_set(network, "policy", policy) < 0) {
		json_decref(network);
		network = NULL;
	}
	if (!policy)
		(void)json_object_del(network, "policy"); /* it may be absent */
	return put_in_force(i, network, i->internet, e);
}

/* --- secrets and keys --- */

static bool has_row(const struct instance *i)
{
	return i->state != INSTANCE_CREATING || *i->returning;
}

/* Of the same policy. */
static int next_generation(struct instance *i, struct error *e)
{
	const struct store_sandbox row = {.network_json = i->network_json,
		.internet = i->internet,
		.network_generation = i->network_generation + 1};
	int r = has_row(i) ? store_sandbox_update(i->fleet->store, i->sandbox.id, STORE_ANY_STATE,
				     STORE_SET_NETWORK, &row, NULL, e)
			   : 0;

	if (r < 0)
		return r;
	i->network_generation++;
	if (i->fleet->network_changed)
		i->fleet->network_changed(i);
	return 0;
}

void network_renew(struct instance *i, const char *name)
{
	struct error e = {0};

	if (*name && !interception_uses(i, name))
		return;
	if (next_generation(i, &e) < 0)
		log_error("a sandbox keeps its old %s: %s sandbox=%s",
			name[0] ? "value of a secret" : "secrets or network", e.message,
			i->sandbox.id);
}

void network_decided(struct instance *i, const char *approval_id)
{
	struct error e = {0};

	if (next_generation(i, &e) < 0)
		log_error("a decision makes no new generation of the policy: %s sandbox=%s",
			e.message, i->sandbox.id);
	else
		activity_say(i->fleet, i->sandbox.id, i->key_id, STORE_ACTIVITY_LIFECYCLE,
			json_pack("{s:s, s:I, s:s}", "event", "policyChanged", "generation",
				(json_int_t)i->network_generation, "approvalID", approval_id));
}

int network_keep_names(struct instance *i, const char *names, struct error *e)
{
	const struct store_sandbox row = {.network_names_json = names};
	char *copy;
	int r;

	if (strlen(names) > NETWORK_NAMES_MAX)
		return error_set(
			e, ERROR_LIMIT, E2BIG, "more than %d bytes of names", NETWORK_NAMES_MAX);
	copy = strdup(names);
	if (!copy)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = store_sandbox_update(i->fleet->store, i->sandbox.id, STORE_ANY_STATE,
		STORE_SET_NETWORK_NAMES, &row, NULL, e);
	if (r < 0) {
		free(copy);
		return r;
	}
	free(i->network_names_json);
	i->network_names_json = copy;
	return 0;
}
