#include "egress/policy.h"

#include <string.h>

#include "egress/policy_internal.h"
#include "egress/proxy.h"

static bool host_matches(const struct policy_rule *r, const char *name, size_t bytes)
{
	switch (r->kind) {
	case RULE_HOST:
		return bytes == r->host_bytes && memcmp(name, r->host, bytes) == 0;
	case RULE_BELOW:
		return bytes > r->host_bytes &&
		       memcmp(name + bytes - r->host_bytes, r->host, r->host_bytes) == 0;
	case RULE_ANY_HOST:
		return true;
	default:
		return false;
	}
}

static bool port_matches(const struct policy_rule *r, uint16_t port)
{
	for (unsigned i = 0; i < r->port_count; i++)
		if (r->ports[i] == port)
			return true;
	return r->port_count == 0;
}

/* What is judged: a flow, or a name alone. */
struct question {
	const char *name; /* NULL: none */
	size_t bytes;
	uint32_t address;
	uint16_t port;
	bool name_only;
};

static bool matches(const struct policy_rule *r, const struct question *q)
{
	if (q->name_only)
		return r->kind == RULE_NET ? r->net.mask == 0 && r->port_count == 0
					   : host_matches(r, q->name, q->bytes);
	return (r->kind == RULE_NET ? net_has(&r->net, q->address)
				    : q->name && host_matches(r, q->name, q->bytes)) &&
	       port_matches(r, q->port);
}

static struct policy_verdict verdict_of(const struct policy_rule *r, const struct question *q)
{
	return (struct policy_verdict){.allow = r->allow || (r->ask && q->name_only),
		.ask = r->ask && !q->name_only,
		.rule = r->id};
}

static struct policy_verdict judge_layer(
	const struct policy *p, const struct policy_layer *l, const struct question *q)
{
	for (unsigned i = l->first; i < l->end; i++)
		if (matches(&p->rules[i], q))
			return verdict_of(&p->rules[i], q);
	return (struct policy_verdict){.allow = l->default_allow, .rule = "default"};
}

/* By so many layers; by none: allowed. */
static struct policy_verdict judge(
	const struct policy *p, unsigned layers, const struct question *q)
{
	struct policy_verdict all = {.allow = true, .rule = "default"};

	for (unsigned i = 0; i < layers && i < p->layer_count; i++) {
		struct policy_verdict v = judge_layer(p, &p->layers[i], q);

		if (!v.allow && !v.ask)
			return v;
		if (!all.ask)
			all = v;
	}
	return all;
}

struct policy_verdict policy_judge_first(
	const struct policy *p, unsigned layers, const char *name, uint32_t address, uint16_t port)
{
	return judge(p, layers,
		&(struct question){.name = name,
			.bytes = name ? strlen(name) : 0,
			.address = address,
			.port = port});
}

struct policy_verdict policy_judge(
	const struct policy *p, const char *name, uint32_t address, uint16_t port)
{
	return policy_judge_first(p, p->layer_count, name, address, port);
}

struct policy_verdict policy_judge_name(const struct policy *p, const char *name)
{
	return judge(p, p->layer_count,
		&(struct question){.name = name, .bytes = strlen(name), .name_only = true});
}

struct policy_verdict policy_judge_between(const struct policy *p, const char *name, uint16_t port)
{
	struct policy_verdict v = {.allow = false, .rule = "default"};
	size_t bytes = strlen(name);

	for (unsigned n = 0; n < p->layer_count; n++) {
		const struct policy_layer *l = &p->layers[n];

		v = (struct policy_verdict){.allow = false, .rule = "default"};
		for (unsigned i = l->first; i < l->end && !v.allow; i++) {
			const struct policy_rule *r = &p->rules[i];

			if (r->between && host_matches(r, name, bytes) && port_matches(r, port))
				v = (struct policy_verdict){.allow = r->allow, .rule = r->id};
		}
		if (!v.allow)
			break;
	}
	return v;
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
	for (unsigned i = 0; i < p->rule_count; i++) {
		free((char *)p->rules[i].host);
		free(p->rules[i].ports);
		free(p->rules[i].id);
	}
	for (unsigned i = 0; i < p->host_count; i++)
		free(p->hosts[i].name);
	free(p->rules);
	free(p->hosts);
	intercept_unref(p->intercept);
	proxy_chain_unref(p->proxies);
	free(p);
}
