#include <string.h>

#include "base/cleanup.h"
#include "proto/http_headers.h"
#include "rules/rules_internal.h"

static bool host_matches(const struct rules_host *h, const char *name, size_t bytes)
{
	switch (h->kind) {
	case RULES_EXACT:
		return bytes == h->bytes && memcmp(name, h->text, bytes) == 0;
	case RULES_BELOW:
		return bytes > h->bytes && memcmp(name + bytes - h->bytes, h->text, h->bytes) == 0;
	case RULES_ANY_HOST:
		return true;
	}
	return false;
}

static bool any_host(const struct rules_rule *r, const char *name)
{
	size_t bytes = name ? strlen(name) : 0;

	for (unsigned i = 0; name && i < r->host_count; i++)
		if (host_matches(&r->hosts[i], name, bytes))
			return true;
	return false;
}

static bool any_net(const struct rules_rule *r, const struct rules_question *q)
{
	for (unsigned i = 0; i < r->net_count; i++)
		if (q->no_address ? r->nets[i].mask == 0 : net_has(&r->nets[i], q->address))
			return true;
	return false;
}

static bool any_port(const struct rules_rule *r, uint16_t port)
{
	for (unsigned i = 0; i < r->port_count; i++)
		if (r->ports[i] == port)
			return true;
	return r->port_count == 0;
}

static bool has_target(const struct rules_rule *r)
{
	return r->host_count || r->net_count;
}

static bool flow_matches(const struct rules_rule *r, const struct rules_question *q)
{
	return any_port(r, q->port) && (!has_target(r) || any_host(r, q->name) || any_net(r, q));
}

/* --- names --- */

/* Whether a rule decides about a name alone. A rule that allows some flows to the name lets it
 * resolve. A rule that denies all of them does not. */
static bool name_matches(const struct rules_rule *r, const struct rules_question *q)
{
	bool all = r->port_count == 0 && !r->requests;

	for (unsigned i = 0; i < r->net_count && all; i++)
		if (r->nets[i].mask == 0)
			return true;
	if (has_target(r) && !any_host(r, q->name))
		return false;
	return r->action == RULES_DENY ? all : r->action != RULES_LOG;
}

static struct rules_verdict judge_name(const struct rules *r, const struct rules_question *q)
{
	for (unsigned i = 0; i < r->count; i++) {
		const struct rules_rule *rule = &r->rules[i];

		if (name_matches(rule, q) && rule->action != RULES_LOG)
			return (struct rules_verdict){
				.action = rule->action == RULES_DENY ? RULES_DENY : RULES_ALLOW,
				.rule = rule};
	}
	return (struct rules_verdict){.action = r->default_allow ? RULES_ALLOW : RULES_DENY};
}

/* --- flows --- */

static void note(struct rules_verdict *v, const struct rules_rule *rule)
{
	if (!v->noted)
		v->noted = rule;
}

static bool is_hard(const struct rules_rule *rule)
{
	return rule->action == RULES_DENY || rule->action == RULES_ASK;
}

/* Whether a rule decides about a flow without its requests. *may is the first rule that may allow
 * one of them: then the flow is allowed, to be inspected. */
static bool decides_flow(const struct rules_rule *rule, const struct rules_question *q,
	struct rules_verdict *v, const struct rules_rule **may)
{
	if (!flow_matches(rule, q))
		return false;
	if (rule->requests && q->kind == RULES_OPAQUE)
		return is_hard(rule);
	if (rule->requests) {
		v->inspect = true;
		if (!*may && rule->action != RULES_DENY && rule->action != RULES_LOG)
			*may = rule;
		if (!v->forward)
			v->forward = rule->forward;
		return false;
	}
	if (rule->action == RULES_LOG)
		note(v, rule);
	return rule->action != RULES_LOG;
}

static struct rules_verdict judge_flow(const struct rules *r, const struct rules_question *q)
{
	struct rules_verdict v = {.action = r->default_allow ? RULES_ALLOW : RULES_DENY};
	const struct rules_rule *may = NULL;

	for (unsigned i = 0; i < r->count && !v.rule; i++)
		if (decides_flow(&r->rules[i], q, &v, &may))
			v.rule = &r->rules[i];
	if (v.rule)
		v.action = v.rule->action;
	if (may && v.action == RULES_DENY)
		v.rule = may;
	if (may || (v.inspect && v.action != RULES_DENY))
		v.action = RULES_ALLOW;
	return v;
}

/* --- requests --- */

static bool any_method(const struct rules_rule *r, const struct rules_question *q)
{
	for (unsigned i = 0; i < r->method_count; i++)
		if (strcmp(r->methods[i], q->method) == 0)
			return true;
	return r->method_count == 0 || q->two_methods;
}

static bool any_path(const struct rules_rule *r, const char *path)
{
	for (unsigned i = 0; i < r->path_count; i++)
		if (path_matches(r->paths[i], path))
			return true;
	return r->path_count == 0;
}

static bool scheme_matches(const struct rules_rule *r, bool tls)
{
	return r->scheme == RULES_ANY_SCHEME || (r->scheme == RULES_HTTPS) == tls;
}

/* Requests of MCP without a body: a stream of events, the end of a session. */
static bool is_bare(const char *method)
{
	return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ||
	       strcmp(method, "DELETE") == 0 || strcmp(method, "OPTIONS") == 0;
}

static const char *why_unclear(const struct call *c, unsigned api)
{
	return c->unclear || api != CALL_MCP ? c->unclear : c->unclear_mcp;
}

/* Rules about models that allow are about POST. */
static bool is_post(const struct rules_question *q)
{
	return strcmp(q->method, "POST") == 0 && !q->two_methods;
}

/* A rule that allows or notes MCP is about its messages, even if it names no tools. */
static bool needs_body(const struct rules_rule *rule, unsigned api)
{
	return rule->call->body || (api == CALL_MCP && !is_hard(rule));
}

/* Whether a rule's conditions on calls match. If they need the body, sets v->body. */
static bool call_fits(const struct rules_rule *rule, const struct rules_question *q,
	const struct call_message *m, struct rules_verdict *v)
{
	unsigned api = rules_call_api(rule->call, q->path);

	if (!api || (api != CALL_MCP && !is_hard(rule) && !is_post(q)))
		return false;
	if (!needs_body(rule, api))
		return true;
	if (api == CALL_MCP && is_bare(q->method) && !q->has_body)
		return !is_hard(rule);
	if (!q->call || !(q->call->apis & api)) {
		v->body |= api;
		return false;
	}
	if (why_unclear(q->call, api)) {
		v->unclear = rule->action == RULES_LOG ? NULL : why_unclear(q->call, api);
		return v->unclear != NULL;
	}
	return rules_call_matches(rule, api, q->call, m);
}

/* Whether a rule may be about a request, and it cannot be told. v->unclear says why, unless the
 * rule decides nothing. */
static bool is_unclear(
	const struct rules_rule *rule, const struct rules_question *q, struct rules_verdict *v)
{
	const char *why = NULL;

	if ((rule->path_count || rule->call) && !q->path)
		why = RULES_TWO_WAYS;
	else if (rule->method_count && q->two_methods && any_path(rule, q->path) &&
		 (!rule->call || rules_call_api(rule->call, q->path)))
		why = RULES_TWO_METHODS;
	v->unclear = rule->action == RULES_LOG ? NULL : why;
	return why;
}

/* Whether a rule decides about a request, or a message of it. */
static bool decides_request(const struct rules_rule *rule, const struct rules_question *q,
	const struct call_message *m, struct rules_verdict *v)
{
	if (!flow_matches(rule, q))
		return false;
	v->inspect = v->inspect || rule->requests;
	if (!any_method(rule, q) || !scheme_matches(rule, q->tls))
		return false;
	if (is_unclear(rule, q, v))
		return v->unclear != NULL;
	if (!any_path(rule, q->path) || (rule->call && !call_fits(rule, q, m, v)))
		return false;
	if (rule->action == RULES_LOG)
		note(v, rule);
	return rule->action != RULES_LOG;
}

static void deny_unclear(struct rules_verdict *v, const char *why)
{
	v->action = RULES_DENY;
	v->unclear = why;
}

static struct rules_verdict judge_message(
	const struct rules *r, const struct rules_question *q, const struct call_message *m)
{
	struct rules_verdict v = {.action = r->default_allow ? RULES_ALLOW : RULES_DENY};

	for (unsigned i = 0; i < r->count && !v.rule; i++)
		if (decides_request(&r->rules[i], q, m, &v))
			v.rule = &r->rules[i];
	if (v.body) /* a rule before the one that decides may be about it */
		return (struct rules_verdict){.action = RULES_ALLOW, .body = v.body};
	if (v.rule)
		v.action = v.unclear ? RULES_DENY : v.rule->action;
	/* If a person was asked about the connection, nobody is asked about its requests. */
	if (v.action == RULES_ASK && !v.inspect)
		v.action = RULES_ALLOW;
	/* nobody would see what is allowed */
	if (v.action == RULES_ASK && (q->two_methods || q->two_paths))
		deny_unclear(&v, q->two_methods ? RULES_TWO_METHODS : RULES_TWO_WAYS);
	v.inspect = false;
	return v;
}

/* Whether rules name tools of MCP for requests like this one, of any method. */
static bool names_tools(const struct rules *r, const struct rules_question *q)
{
	for (unsigned i = 0; i < r->count; i++) {
		const struct rules_rule *rule = &r->rules[i];

		if (rule->call && rule->call->tool_count && rule->call->apis & CALL_MCP &&
			flow_matches(rule, q) && scheme_matches(rule, q->tls) &&
			(!q->path || any_path(rule, q->path)))
			return true;
	}
	return false;
}

static const struct rules_budget *budget_of(const struct rules_verdict *v)
{
	return v->action == RULES_ALLOW && v->rule ? v->rule->budget : NULL;
}

static bool sets_headers(const struct rules_verdict *v)
{
	return v->rule && v->rule->header_count;
}

/* Why two messages cannot go in one request. NULL: they can. */
static const char *why_apart(const struct rules_verdict *a, const struct rules_verdict *b)
{
	if (a->rule == b->rule || a->action == RULES_DENY || b->action == RULES_DENY)
		return NULL;
	if (sets_headers(a) || sets_headers(b))
		return "a rule's headers are not for all its messages: send them one by one";
	if (a->action == RULES_ASK && b->action == RULES_ASK) /* a person answers one rule */
		return "several rules ask about its messages: send them one by one";
	if (budget_of(a) && budget_of(b))
		return "its messages have several budgets: send them one by one";
	return NULL;
}

/* Of several messages, the one that is judged hardest counts, and of those that are allowed the one
 * that costs. */
static struct rules_verdict judge_messages(const struct rules *r, const struct rules_question *q)
{
	unsigned n = q->call ? q->call->message_count : 0;
	struct rules_verdict v = judge_message(r, q, n ? &q->call->messages[0] : NULL);

	for (unsigned i = 1; i < n; i++) {
		struct rules_verdict o = judge_message(r, q, &q->call->messages[i]);
		int more = rules_weight(o.action) - rules_weight(v.action);

		if (why_apart(&v, &o))
			deny_unclear(&v, why_apart(&v, &o));
		else if (more > 0 || (more == 0 && budget_of(&o)))
			v = o;
	}
	v.tools = names_tools(r, q);
	return v;
}

/* Adds the form to what must be read, if the verdict is another one with a second method. */
static void want_form(
	const struct rules *r, const struct rules_question *q, struct rules_verdict *v)
{
	struct rules_question two = *q;
	struct rules_verdict o;

	if (!q->form || q->two_methods || v->action == RULES_DENY ||
		(q->call && q->call->apis & CALL_FORM))
		return;
	two.two_methods = true;
	o = judge_messages(r, &two);
	if (v->body || o.body || o.rule != v->rule || o.action != v->action)
		*v = (struct rules_verdict){.action = RULES_ALLOW,
			.body = v->body | o.body | CALL_FORM,
			.tools = v->tools};
}

static struct rules_verdict judge_request(const struct rules *r, const struct rules_question *q)
{
	struct rules_verdict v = judge_messages(r, q);
	const struct rules_budget *b;

	want_form(r, q, &v);
	b = budget_of(&v);
	if (b && b->limits.micros && q->call && q->call->apis & ~CALL_FORM &&
		!rules_price_of(b->prices, q->call->model))
		deny_unclear(&v, "its model has no price in the policy");
	return v;
}

struct rules_verdict rules_judge(const struct rules *r, const struct rules_question *q)
{
	struct rules_question opaque = *q;

	if (q->kind == RULES_NAME)
		return judge_name(r, q);
	if (q->kind == RULES_REQUEST)
		return judge_request(r, q);
	if (!q->name) /* nothing says for which server TLS is */
		opaque.kind = RULES_OPAQUE;
	return judge_flow(r, &opaque);
}

struct rules_verdict rules_judge_between(const struct rules *r, const char *name, uint16_t port)
{
	for (unsigned i = 0; i < r->count; i++) {
		const struct rules_rule *rule = &r->rules[i];

		if (rule->between && any_host(rule, name) && any_port(rule, port))
			return (struct rules_verdict){.action = rule->action, .rule = rule};
	}
	return (struct rules_verdict){.action = RULES_DENY};
}
