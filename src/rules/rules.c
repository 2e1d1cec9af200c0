#include "rules/rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "rules/rules_internal.h"

static void free_headers(struct rules_header *headers, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		free(headers[i].name);
		free(headers[i].value);
	}
	free(headers);
}

static void free_answer(struct rules_answer *a)
{
	if (!a)
		return;
	free_headers(a->headers, a->header_count);
	free(a->body);
	free(a);
}

static void free_texts(char **texts, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		free(texts[i]);
	free(texts);
}

static void free_forward(struct rules_forward *f)
{
	if (!f)
		return;
	free(f->host);
	free(f->path);
	free(f);
}

static void done_rule(struct rules_rule *r)
{
	for (unsigned i = 0; i < r->host_count; i++)
		free(r->hosts[i].text);
	free(r->hosts);
	free(r->nets);
	free(r->ports);
	free_texts(r->methods, r->method_count);
	free_texts(r->paths, r->path_count);
	free_answer(r->answer);
	rules_fields_done(&r->request_headers);
	rules_fields_done(&r->query);
	rules_call_free(r->call);
	free_forward(r->forward);
	free_headers(r->headers, r->header_count);
	rules_budget_free(r->budget);
	free(r->reason);
	free(r->id);
}

void rules_done(struct rules *r)
{
	for (unsigned i = 0; i < r->count; i++)
		done_rule(&r->rules[i]);
	free(r->rules);
	rules_prices_free(r->prices);
	*r = (struct rules){.count = 0};
}

const char *rules_id(const struct rules_rule *rule)
{
	return rule ? rule->id : "default";
}

int rules_weight(enum rules_action action)
{
	switch (action) {
	case RULES_DENY:
		return 3;
	case RULES_ASK:
		return 2;
	case RULES_RESPOND:
		return 1;
	default:
		return 0;
	}
}

const char *rules_action_word(enum rules_action action)
{
	static const char *const words[] = {[RULES_DENY] = "deny",
		[RULES_ALLOW] = "allow",
		[RULES_ASK] = "ask",
		[RULES_RESPOND] = "respond",
		[RULES_LOG] = "log"};

	return words[action];
}

static int add_host(json_t *hosts, const struct rules_host *h)
{
	char text[POLICY_HOST_MAX + 2];

	(void)snprintf(text, sizeof(text), "%s%s", h->kind == RULES_EXACT ? "" : "*",
		h->text ? h->text : ""); /* fits */
	return json_object_set_new(hosts, text, json_null()) < 0 ? -ENOMEM : 0;
}

int rules_inspected(const struct rules *r, json_t *hosts)
{
	static const struct rules_host any = {.kind = RULES_ANY_HOST};
	int e = 0;

	for (unsigned i = 0; i < r->count && e == 0; i++) {
		const struct rules_rule *rule = &r->rules[i];

		if (!rule->requests)
			continue;
		for (unsigned n = 0; n < rule->host_count && e == 0; n++)
			e = add_host(hosts, &rule->hosts[n]);
		if (rule->host_count == 0)
			e = add_host(hosts, &any);
	}
	return e;
}
