#include "fleet/network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fleet/events.h"
#include "fleet/fleet.h"
#include "fleet/network_policy.h"
#include "proto/json_tree.h"

bool network_is_off(const struct fleet *f)
{
	return f->options.network && f->options.network->mode == NETWORK_OFF;
}

char *network_policy_text(const struct instance *i)
{
	json_t *network = json_tree_stored(i->network_json), *policy, *names;
	char *line;

	if (i->network_json && !network)
		return NULL; /* without its rules it would be open */
	policy = network_policy(i->fleet->options.network, network,
		i->internet == STORE_INTERNET_DENIED, i->network_generation);
	names = policy ? json_tree_stored(i->network_names_json) : NULL;
	line = policy ? network_policy_line(policy, names) : NULL;
	json_decref(network);
	return line;
}

/* The network object after an update, as text; NULL: out of memory. */
static char *updated(const struct instance *i, const json_t *update)
{
	static const char *const names[] = {
		"allowOut", "denyOut", "dnsServers", "rules", "egressProxy"};
	json_t *network = i->network_json ? json_tree_stored(i->network_json) : json_object();
	int r = network ? 0 : -ENOMEM;
	char *text;

	for (size_t n = 0; r == 0 && n < ARRAY_SIZE(names); n++) {
		json_t *v = json_object_get(update, names[n]);

		if (v && !json_is_null(v))
			r = json_object_set(network, names[n], v) < 0 ? -ENOMEM : 0;
		else
			(void)json_object_del(network, names[n]); /* it may be absent */
	}
	text = r == 0 ? json_dumps(network, JSON_COMPACT) : NULL;
	json_decref(network);
	return text;
}

static int write_change(struct instance *i, const struct store_sandbox *row, struct error *e)
{
	int r = store_begin(i->fleet->store, e);

	if (r < 0)
		return r;
	r = store_sandbox_update(i->fleet->store, i->sandbox.id,
		STORE_STATE_BIT(STORE_RUNNING) | STORE_STATE_BIT(STORE_SNAPSHOTTING),
		STORE_SET_NETWORK, row, NULL, e);
	if (r == 0)
		event_note(i->fleet, i->sandbox.id, i->key_id, i->template.id, STORE_EVENT_UPDATED,
			NULL);
	if (r == 0)
		r = store_commit(i->fleet->store, e);
	if (r < 0)
		store_rollback(i->fleet->store);
	return r;
}

int network_change(
	struct instance *i, const json_t *update, enum store_internet internet, struct error *e)
{
	_cleanup_free_ char *text = updated(i, update);
	const struct store_sandbox row = {.network_json = text,
		.internet = internet,
		.network_generation = i->network_generation + 1};
	int r;

	if (!text)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = write_change(i, &row, e);
	if (r < 0)
		return r;
	free(i->network_json);
	i->network_json = TAKE_PTR(text);
	i->internet = internet;
	i->network_generation++;
	if (i->fleet->network_changed)
		i->fleet->network_changed(i);
	return 0;
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
