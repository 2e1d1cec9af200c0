/* What a sandbox has used of the budgets of its policies (docs/policy.md#budgets). */
#include <errno.h>

#include "api/api.h"
#include "api/auth.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "fleet/fleet_of.h"
#include "fleet/instance.h"
#include "http/reply.h"
#include "policy/network_policy.h"
#include "proto/json_tree.h"
#include "proto/timestamp.h"
#include "rules/rules.h"
#include "store/budgets.h"
#include "store/keys.h"

#define DAY_NS (UINT64_C(86400) * NS_PER_S)

enum { MICROS = 1000000 };

/* What is asked about. */
struct view {
	struct fleet *fleet;
	const struct store_sandbox *sandbox;
	uint64_t now_ns;
	json_t *list;
};

static void put_number(json_t *o, const char *name, uint64_t used, uint64_t limit)
{
	if (limit)
		(void)json_object_set_new(o, name,
			json_pack("{s:I, s:I}", "used", (json_int_t)used, "limit",
				(json_int_t)limit)); /* without memory it is missing */
}

static json_t *one_json(
	const struct view *v, const struct store_budget *row, const struct rules_budget *b)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "rule", row->id, "per",
		rules_budget_per_word(b->per), "window", rules_budget_window_word(b->window),
		"then", b->ask ? "ask" : "deny");
	char when[TIMESTAMP_BYTES];

	put_number(o, "requests", row->used.requests, b->limits.requests);
	put_number(o, "tokens", row->used.tokens, b->limits.tokens);
	if (b->limits.micros)
		(void)json_object_set_new(o, "usd",
			json_pack("{s:f, s:f}", "used", (double)row->used.micros / MICROS, "limit",
				(double)b->limits.micros / MICROS)); /* likewise */
	if (row->day)
		(void)json_object_set_new(o, "resetsAt",
			json_string(timestamp_format_ns(
				(v->now_ns / DAY_NS + 1) * DAY_NS, when))); /* likewise */
	return o;
}

static int add_budget(struct view *v, const struct rules_rule *rule, struct error *e)
{
	const struct rules_budget *b = rule->budget;
	struct store_budget row = {.key_id = v->sandbox->key_id,
		.sandbox_id = b->per == RULES_PER_KEY ? NULL : v->sandbox->id,
		.id = rule->id,
		.day = b->window == RULES_IN_TOTAL ? 0 : store_budget_day(v->now_ns)};
	int r = store_budget_get(v->fleet->store, &row, e);

	if (r == 0 && json_array_append_new(v->list, one_json(v, &row, b)) < 0)
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	return r;
}

/* Of a layer as the worker gets it. */
static int add_layer(struct view *v, json_t *layer, struct error *e)
{
	struct policy_at top = {.e = e};
	struct rules all;
	int r = rules_make(&top, layer, RULES_MAX, &all);

	if (r < 0)
		return r == -ENOMEM ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory") : r;
	for (unsigned i = 0; i < all.count && r == 0; i++)
		if (all.rules[i].budget)
			r = add_budget(v, &all.rules[i], e);
	rules_done(&all);
	return r;
}

/* The template's policy is known while it runs. */
static int add_all(struct view *v, struct error *e)
{
	const struct instance *i = instance_find(v->fleet, v->sandbox->id);
	_cleanup_(store_key_freep) struct store_key *key = NULL;
	struct network_floors floors = {
		v->fleet->options.network, NULL, i ? i->sandbox.network : NULL};
	json_t *network = json_tree_stored(v->sandbox->network_json), *policy = NULL, *layers;
	int r = store_key_get(v->fleet->store, v->sandbox->key_id, &key, e);

	if (r == 0) {
		floors.key = key->limits.network;
		policy = network_policy(&floors, network, false, 1);
	}
	layers = json_object_get(policy, "layers");
	for (size_t n = 0; r == 0 && n < json_array_size(layers); n++)
		r = add_layer(v, json_array_get(layers, n), e);
	json_decref(network);
	json_decref(policy);
	return r;
}

void api_budgets(struct request *r)
{
	struct store_sandbox *sb = api_find(r);
	struct view v = {.fleet = fleet_of(r), .sandbox = sb, .now_ns = clock_realtime_ns()};
	struct error e = {0};

	if (!sb)
		return;
	v.list = json_array();
	if (add_all(&v, &e) < 0) {
		json_decref(v.list);
		reply_failure(r, &e);
	} else {
		reply_json(r, 200, json_pack("{s:o}", "budgets", v.list));
	}
	store_sandbox_free(sb);
}
