#include "egress/policy.h"

#include <string.h>

#include "egress/proxy.h"

static void take(struct policy_verdict *all, const struct rules_verdict *v)
{
	all->allow = v->action == RULES_ALLOW || v->action == RULES_RESPOND;
	all->ask = v->action == RULES_ASK;
	all->rule = rules_id(v->rule);
	all->reason = v->unclear ? v->unclear : (v->rule ? v->rule->reason : NULL);
	all->answer = v->action == RULES_RESPOND ? v->rule->answer : NULL;
}

/* Of a layer that only observes, what it would not have allowed; of others, what a rule notes. */
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
