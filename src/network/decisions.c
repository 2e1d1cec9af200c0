#include "network/decisions.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "network/approval_right.h"
#include "network/network.h"
#include "network/renewal.h"
#include "policy/rule_digest.h"
#include "proto/json_tree.h"
#include "proto/timestamp.h"
#include "store/approvals.h"
#include "store/keys.h"
#include "store/sandboxes.h"

enum { AT_ONCE = 64 };

/* --- the rules that ask --- */

/* template: what the template says (policy/network_list.h). */
static struct rule_digests *rules_of(
	struct fleet *f, const char *key_id, const char *network_json, const char *template)
{
	_cleanup_(store_key_freep) struct store_key *key = NULL;
	struct network_floors floors = {f->options.network, NULL, template};
	json_t *network = json_tree_stored(network_json);
	struct rule_digests *d = NULL;

	if (store_key_get(f->store, key_id, &key, NULL) == 0 && (network || !network_json)) {
		floors.key = key->limits.network;
		d = rule_digests_new(&floors, network);
	}
	json_decref(network);
	return d;
}

struct rule_digests *decisions_rules(const struct instance *i)
{
	return rules_of(i->fleet, i->key_id, i->network_json, i->sandbox.network);
}

/* Whether the rule is as it was when it asked. */
static bool is_current(const struct rule_digests *rules, const struct store_approval *a)
{
	uint8_t now[RULE_DIGEST_BYTES];

	_Static_assert(sizeof(now) == sizeof(a->rule_digest), "the same digest");
	rule_digests_get(rules, a->rule, now);
	return memcmp(now, a->rule_digest, sizeof(now)) == 0;
}

/* --- generations --- */

struct made {
	struct fleet *fleet;
	enum store_approval_for scope;
	char id[STORE_APPROVAL_ID_BYTES], sandbox_id[STORE_ID_MAX + 1], key_id[STORE_ID_MAX + 1];
	char template_id[STORE_NAME_MAX + 1];
};

static int note_made(void *arg, const struct store_approval *a)
{
	struct made *m = arg;

	m->scope = a->scope; /* the texts fit */
	(void)snprintf(m->id, sizeof(m->id), "%s", a->id);
	(void)snprintf(m->sandbox_id, sizeof(m->sandbox_id), "%s", a->sandbox_id);
	(void)snprintf(m->key_id, sizeof(m->key_id), "%s", a->key_id);
	(void)snprintf(
		m->template_id, sizeof(m->template_id), "%s", a->template_id ? a->template_id : "");
	return 0;
}

static void begin_generations(struct made *m)
{
	bool all = m->scope == STORE_APPROVAL_TEMPLATE;
	struct instance *i = NULL;
	struct error e = {0};

	if (store_sandboxes_renew(
		    m->fleet->store, m->key_id, m->sandbox_id, all ? m->template_id : NULL, &e) < 0)
		log_error("paused sandboxes keep the generation of their policy: %s approval=%s",
			e.message, m->id);
	if (all) {
		renewal_begin_decision(m->fleet, m->key_id, m->template_id, m->id);
		return;
	}
	i = instance_find(m->fleet, m->sandbox_id);
	i = i ? i : instance_find_unsettled(m->fleet, m->sandbox_id);
	if (i)
		network_decided(i, m->id);
}

void decisions_made(struct fleet *f, const char *approval_id)
{
	struct made m = {.fleet = f};

	if (store_approval_get(f->store, approval_id, NULL, note_made, &m, NULL) == 0 &&
		m.scope != STORE_APPROVAL_ONCE)
		begin_generations(&m);
}

static int check_end(void *arg, const struct store_approval *a)
{
	return approval_right_check_end(a->question_json, arg);
}

int decisions_end(struct fleet *f, const char *approval_id, const char *key_id, struct error *e)
{
	int r = key_id ? store_approval_get(f->store, approval_id, key_id, check_end, e, e) : 0;

	r = r ? r : store_approval_end(f->store, approval_id, key_id, clock_realtime_ns(), e);

	if (r == 0)
		decisions_made(f, approval_id);
	return r;
}

/* --- another policy --- */

struct check {
	const struct instance *instance;
	struct rule_digests *rules; /* NULL: not needed yet */
	unsigned count;
	char ids[AT_ONCE][STORE_APPROVAL_ID_BYTES];
};

static int note_changed(void *arg, const struct store_approval *a)
{
	struct check *c = arg;

	if (a->scope != STORE_APPROVAL_SANDBOX)
		return 0;
	c->rules = c->rules ? c->rules : decisions_rules(c->instance);
	if (!c->rules)
		return -ENOMEM;
	if (!is_current(c->rules, a))
		(void)snprintf(c->ids[c->count++], sizeof(c->ids[0]), "%s", a->id); /* fits */
	return c->count == AT_ONCE;
}

static int end_changed(struct check *c, struct error *e)
{
	const struct instance *i = c->instance;
	const struct store_sandbox of = {
		.id = i->sandbox.id, .key_id = i->key_id, .template_id = instance_template_id(i)};
	uint64_t now = clock_realtime_ns();
	int r;

	c->count = 0;
	r = store_approval_given(i->fleet->store, &of, now, note_changed, c, e);
	for (unsigned n = 0; r >= 0 && n < c->count; n++)
		r = store_approval_end(i->fleet->store, c->ids[n], NULL, now, e);
	return r;
}

void decisions_check(const struct instance *i)
{
	struct check c = {.instance = i};
	struct error e = {0};
	int r;

	do
		r = end_changed(&c, &e);
	while (r >= 0 && c.count == AT_ONCE);
	if (r < 0) /* they answer nothing in any case */
		log_error("cannot end decisions about rules that changed: %s sandbox=%s",
			e.code ? e.message : "out of memory", i->sandbox.id);
	rule_digests_free(c.rules);
}

/* --- for people --- */

struct list {
	struct rule_digests *rules;
	json_t *array;
};

/* What is asked, in the words of rules. */
static json_t *target_json(const struct store_approval *a)
{
	static const char *const names[] = {"host", "port", "scheme", "method", "call"};
	json_t *asked = json_tree_stored(a->question_json), *o = json_object();
	const char *path = json_string_value(json_object_get(asked, "path"));

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		(void)json_object_set(o, names[i], json_object_get(asked, names[i])); /* or none */
	if (!json_object_get(asked, "host"))
		(void)json_object_set(o, "address", json_object_get(asked, "address"));
	if (path)
		(void)json_object_set_new(o, "path", json_stringn(path, strcspn(path, "?")));
	json_decref(asked);
	return o;
}

/* "by", "at" and "expires", and what tells questions apart that look the same. */
static int add_rest(json_t *o, const struct store_approval *a)
{
	char at[TIMESTAMP_BYTES], until[TIMESTAMP_BYTES], target[2 * STORE_APPROVAL_HASH + 1];
	json_t *rest;
	int r;

	str_hex(a->target, sizeof(a->target), target);
	rest = json_pack("{s:s, s:s*, s:s, s:s*, s:s*, s:s}", "for",
		store_approval_for_name(a->scope), "by", a->decided_by, "at",
		timestamp_format_ns(a->decided_ns, at), "expires",
		a->until_ns < STORE_NEVER_NS ? timestamp_format_ns(a->until_ns, until) : NULL,
		"reason", a->reason, "target", target);
	r = rest ? json_object_update(o, rest) : -1;
	json_decref(rest);
	return r;
}

static json_t *decision_json(const struct store_approval *a)
{
	bool allow = a->state == STORE_APPROVAL_ALLOWED;
	json_t *target = target_json(a), *o;

	o = json_pack("{s:s, s:s, s:s}", "id", a->id, "action", allow ? "allow" : "deny", "answers",
		a->rule);
	if (!o || json_object_update(o, target) < 0 || add_rest(o, a) < 0) {
		json_decref(o);
		o = NULL;
	}
	json_decref(target);
	return o;
}

static int add(void *arg, const struct store_approval *a)
{
	struct list *l = arg;

	if (!is_current(l->rules, a))
		return 0;
	return json_array_append_new(l->array, decision_json(a)) < 0 ? -ENOMEM : 0;
}

json_t *decisions_list(struct fleet *f, const struct store_sandbox *sb, struct error *e)
{
	json_t *extra = json_tree_stored(sb->extra_json);
	struct list l = {.array = json_array(),
		.rules = rules_of(f, sb->key_id, sb->network_json,
			json_string_value(json_object_get(extra, "network")))};
	int r = l.array && l.rules
			? store_approval_given(f->store, sb, clock_realtime_ns(), add, &l, e)
			: -ENOMEM;

	json_decref(extra);
	rule_digests_free(l.rules);
	if (r == 0)
		return l.array;
	json_decref(l.array);
	(void)error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory"); /* the first wins */
	return NULL;
}
