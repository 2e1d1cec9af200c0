#include "egress/policy.h"

#include <string.h>

#include "egress/proxy.h"

static void take(struct policy_verdict *all, const struct rules_verdict *v)
{
	all->allow = v->action == RULES_ALLOW || v->action == RULES_RESPOND;
	all->ask = v->action == RULES_ASK;
	all->asks = all->ask ? v->rule : NULL;
	all->rule = rules_id(v->rule);
	all->reason = v->unclear ? v->unclear : (v->rule ? v->rule->reason : NULL);
	all->answer = v->action == RULES_RESPOND ? v->rule->answer : NULL;
}

/* Returns what a layer notes: for an observing layer, what it would not have allowed; for others,
 * what a rule with "log" notes. */
static void note(
	struct policy_verdict *all, const struct rules *layer, const struct rules_verdict *v)
{
	if (!all->noted && layer->observe && v->action != RULES_ALLOW) {
		all->noted = rules_action_word(v->action);
		all->noted_rule = rules_id(v->rule);
	} else if (!all->noted && v->noted) {
		all->noted = rules_action_word(RULES_LOG);
		all->noted_rule = rules_id(v->noted);
	}
}

static void take_budget(struct policy_verdict *all, const struct rules_verdict *v)
{
	if (v->action == RULES_ALLOW && v->rule && v->rule->budget)
		all->budgets[all->budget_count++] = v->rule;
}

static struct policy_verdict judge(
	const struct policy *p, unsigned layers, const struct rules_question *q)
{
	struct policy_verdict all = {.allow = true, .rule = "default"};
	int most = 0;

	for (unsigned i = 0; i < layers && i < p->layer_count && most < 3; i++) {
		struct rules_verdict v = rules_judge(&p->layers[i], q);

		note(&all, &p->layers[i], &v);
		all.inspect = all.inspect || v.inspect;
		all.body |= v.body;
		if (v.forward && !all.forward && !p->layers[i].observe) {
			all.forward = v.forward;
			all.forward_floors = i;
		}
		if (v.rule && v.rule->header_count && !p->layers[i].observe)
			all.setters[all.setter_count++] = v.rule;
		all.tools = all.tools || (v.tools && !p->layers[i].observe);
		if (!p->layers[i].observe)
			take_budget(&all, &v);
		if (p->layers[i].observe || rules_weight(v.action) < most)
			continue;
		if (rules_weight(v.action) > most || (most == 0 && v.rule))
			take(&all, &v);
		most = rules_weight(v.action);
	}
	all.inspect = all.inspect && (all.allow || all.ask);
	if (most == 3)
		all.body = 0;
	return all;
}

struct policy_verdict policy_judge_floors(
	const struct policy *p, unsigned layers, const struct rules_question *q)
{
	return judge(p, layers, q);
}

static int weight(const struct policy_verdict *v)
{
	if (v->ask)
		return 2;
	return v->allow ? v->answer != NULL : 3;
}

/* Adds a budget once. A layer has one, but under two names it may have two. */
static void add_budget(struct policy_verdict *v, const struct rules_rule *rule)
{
	for (unsigned i = 0; i < v->budget_count; i++)
		if (v->budgets[i] == rule)
			return;
	if (v->budget_count < POLICY_LAYERS_MAX)
		v->budgets[v->budget_count++] = rule;
	else
		v->allow = v->ask = false; /* never: there are five layers */
}

struct policy_verdict policy_harder(struct policy_verdict a, struct policy_verdict b)
{
	struct policy_verdict v = weight(&b) > weight(&a) ? b : a;

	v.budget_count = 0;
	for (unsigned i = 0; i < a.budget_count; i++)
		add_budget(&v, a.budgets[i]);
	for (unsigned i = 0; i < b.budget_count; i++)
		add_budget(&v, b.budgets[i]);

	memcpy(v.setters, a.setters, sizeof(v.setters));
	v.setter_count = a.setter_count;
	v.body = weight(&v) == 3 ? 0 : a.body | b.body;
	v.tools = a.tools || b.tools;
	return v;
}

struct policy_verdict policy_judge_question(const struct policy *p, const struct rules_question *q)
{
	return judge(p, p->layer_count, q);
}

struct policy_verdict policy_judge(
	const struct policy *p, const char *name, uint32_t address, uint16_t port)
{
	return judge(p, p->layer_count,
		&(struct rules_question){
			.kind = RULES_FLOW, .name = name, .address = address, .port = port});
}

struct policy_verdict policy_judge_unresolved(
	const struct policy *p, const char *name, uint16_t port)
{
	return judge(p, p->layer_count,
		&(struct rules_question){
			.kind = RULES_FLOW, .name = name, .no_address = true, .port = port});
}

struct policy_verdict policy_judge_first(
	const struct policy *p, unsigned layers, const char *name, uint32_t address, uint16_t port)
{
	return judge(p, layers,
		&(struct rules_question){
			.kind = RULES_OPAQUE, .name = name, .address = address, .port = port});
}

struct policy_verdict policy_judge_name(const struct policy *p, const char *name)
{
	return judge(p, p->layer_count, &(struct rules_question){.kind = RULES_NAME, .name = name});
}

struct policy_verdict policy_judge_between(const struct policy *p, const char *name, uint16_t port)
{
	struct policy_verdict all = {.allow = true, .rule = "default"};

	for (unsigned i = 0; i < p->layer_count && all.allow; i++) {
		struct rules_verdict v = rules_judge_between(&p->layers[i], name, port);

		take(&all, &v);
	}
	return all;
}

const struct policy_host *policy_host(const struct policy *p, const char *name)
{
	for (unsigned i = 0; i < p->host_count; i++)
		if (strcmp(p->hosts[i].name, name) == 0)
			return &p->hosts[i];
	return NULL;
}

bool policy_opens(const struct policy *p, uint32_t address)
{
	for (unsigned i = 0; i < p->private_count; i++)
		if (net_has(&p->private[i], address))
			return true;
	return false;
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < p->layer_count; i++)
		rules_done(&p->layers[i]);
	for (unsigned i = 0; i < p->host_count; i++)
		free(p->hosts[i].name);
	free(p->hosts);
	intercept_unref(p->intercept);
	proxy_chain_unref(p->proxies);
	free(p);
}
