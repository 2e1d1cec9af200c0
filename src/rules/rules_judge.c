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

enum known { NOT_KNOWN, NO, YES };

/* A judgement of one request. */
struct judging {
	const struct rules *rules;
	const struct rules_question *q;
	struct path_steps steps;
	enum known batch, action; /* it may be a batch; a header may choose its action */
	bool widened;		  /* the path's other readings are there */
	struct path_wide wide;
};

static bool is_batch(struct judging *j)
{
	const struct rules_question *q = j->q;

	if (!j->batch)
		j->batch = rules_is_batch(q->method, q->path, q->query, q->headers) ? YES : NO;
	return j->batch == YES;
}

static bool is_named(const struct judging *j, const struct http_header *h)
{
	for (unsigned i = 0; i < j->rules->count; i++) {
		const struct rules_fields *named = &j->rules->rules[i].request_headers;

		for (unsigned n = 0; n < named->count; n++)
			if (http_is_same_name(h->name, named->list[n].name) &&
				flow_matches(&j->rules->rules[i], j->q))
				return true;
	}
	return false;
}

/* Whether a header may choose what the server does, and no rule looks at it. */
static bool has_action(struct judging *j)
{
	const struct http_headers *h = j->q->headers;

	for (unsigned i = 0; !j->action && h && i < h->count; i++)
		if (rules_is_action(&h->items[i]) && !is_named(j, &h->items[i]))
			j->action = YES;
	j->action = j->action ? j->action : NO;
	return j->action == YES;
}

/* Servers run what they have for GET for HEAD as well. */
static bool is_method(const struct rules_rule *r, const char *method, const char *asked)
{
	return strcmp(method, asked) == 0 ||
	       (r->action != RULES_ALLOW && strcmp(method, "GET") == 0 &&
		       strcmp(asked, "HEAD") == 0);
}

static bool any_method(struct judging *j, const struct rules_rule *r)
{
	for (unsigned i = 0; i < r->method_count; i++)
		if (is_method(r, r->methods[i], j->q->method))
			return true;
	return r->method_count == 0 || j->q->two_methods || is_batch(j);
}

static bool path_fits(struct judging *j, const struct rules_rule *r, const char *pattern)
{
	if (r->action == RULES_ALLOW)
		return path_matches(pattern, j->q->path, &j->steps);
	if (!j->widened)
		path_widen(j->q->path, &j->wide);
	j->widened = true;
	/* part of an encoded letter matches exactly only */
	return path_matches_wide(pattern, &j->wide, &j->steps) ||
	       (strchr(pattern, '%') && path_matches(pattern, j->q->path, &j->steps));
}

/* A rule that allows matches exactly. Others also match whatever a server may take for their
 * path. */
static bool any_path(struct judging *j, const struct rules_rule *r)
{
	for (unsigned i = 0; i < r->path_count; i++)
		if (path_fits(j, r, r->paths[i]))
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
static bool call_fits(struct judging *j, const struct rules_rule *rule,
	const struct call_message *m, struct rules_verdict *v)
{
	const struct rules_question *q = j->q;
	unsigned api = rules_call_api(rule->call, q->path);
	const char *why = NULL;
	enum rules_fit fits = RULES_FITS_UNCLEAR;

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
	why = why_unclear(q->call, api);
	if (!why)
		fits = rules_call_fits(rule, api, q->call, m, &j->steps, &why);
	if (fits != RULES_FITS_UNCLEAR)
		return fits == RULES_FITS;
	v->unclear = rule->action == RULES_LOG ? NULL : why;
	return v->unclear != NULL;
}

/* Why it cannot be told whether a rule is about a request, or NULL. path: its paths match. If they
 * do not, the server may still do what they name. */
static const char *why_not_told(struct judging *j, const struct rules_rule *rule, bool path)
{
	const struct rules_question *q = j->q;

	if ((rule->path_count || rule->call) && !q->path)
		return RULES_TWO_WAYS;
	if (!path && is_hard(rule))
		return is_batch(j) ? RULES_BATCH : has_action(j) ? RULES_ACTION : NULL;
	if (path && rule->method_count && (q->two_methods || is_batch(j)) &&
		(!rule->call || rules_call_api(rule->call, q->path)))
		return q->two_methods ? RULES_TWO_METHODS : RULES_BATCH;
	return NULL;
}

/* Whether a rule's conditions on headers and parameters match. If they need the form, sets
 * v->body. */
static bool fields_fit(struct judging *j, const struct rules_rule *rule, struct rules_verdict *v)
{
	const char *why = NULL;
	enum rules_fit fits;

	if (rules_fields_need_form(rule, j->q)) {
		v->body |= CALL_FORM;
		return false;
	}
	fits = rules_fields_fit(rule, j->q, &j->steps, &why);
	if (fits == RULES_FITS_UNCLEAR && rule->action != RULES_LOG)
		v->unclear = why;
	return fits == RULES_FITS || v->unclear;
}

/* Whether all conditions of a rule match. v->unclear: it cannot be told; not of a rule that decides
 * nothing. */
static bool request_matches(struct judging *j, const struct rules_rule *rule,
	const struct call_message *m, struct rules_verdict *v)
{
	const char *why;
	bool path;

	v->unclear = NULL;
	if (!any_method(j, rule) || !scheme_matches(rule, j->q->tls))
		return false;
	path = j->q->path ? any_path(j, rule) : !rule->path_count;
	why = why_not_told(j, rule, path);
	if (why) {
		v->unclear = rule->action == RULES_LOG ? NULL : why;
		return v->unclear != NULL;
	}
	if (!path || !fields_fit(j, rule, v))
		return false;
	return v->unclear || !rule->call || call_fits(j, rule, m, v);
}

/* Whether a rule decides about a request, or a message of it. */
static bool decides_request(struct judging *j, const struct rules_rule *rule,
	const struct call_message *m, struct rules_verdict *v)
{
	bool matches;

	if (!flow_matches(rule, j->q))
		return false;
	v->inspect = v->inspect || rule->requests;
	matches = request_matches(j, rule, m, v);
	if (j->steps.over) {
		v->unclear = RULES_TOO_LONG;
		return true;
	}
	if (matches && rule->action == RULES_LOG)
		note(v, rule);
	return matches && rule->action != RULES_LOG;
}

static void deny_unclear(struct rules_verdict *v, const char *why)
{
	v->action = RULES_DENY;
	v->unclear = why;
}

static struct rules_verdict judge_message(struct judging *j, const struct call_message *m)
{
	const struct rules *r = j->rules;
	const struct rules_question *q = j->q;
	struct rules_verdict v = {.action = r->default_allow ? RULES_ALLOW : RULES_DENY};

	for (unsigned i = 0; i < r->count && !v.rule; i++)
		if (decides_request(j, &r->rules[i], m, &v))
			v.rule = &r->rules[i];
	if (v.body && !j->steps.over) /* a rule before the one that decides may be about it */
		return (struct rules_verdict){.action = RULES_ALLOW, .body = v.body};
	v.body = 0;
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
static bool names_tools(struct judging *j)
{
	const struct rules_question *q = j->q;

	for (unsigned i = 0; i < j->rules->count; i++) {
		const struct rules_rule *rule = &j->rules->rules[i];

		if (rule->call && rule->call->tool_count && rule->call->apis & CALL_MCP &&
			flow_matches(rule, q) && scheme_matches(rule, q->tls) &&
			(!q->path || any_path(j, rule) || j->steps.over))
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
static struct rules_verdict judge_messages(struct judging *j)
{
	const struct call *call = j->q->call;
	unsigned n = call ? call->message_count : 0;
	struct rules_verdict v = judge_message(j, n ? &call->messages[0] : NULL);

	for (unsigned i = 1; i < n; i++) {
		struct rules_verdict o = judge_message(j, &call->messages[i]);
		int more = rules_weight(o.action) - rules_weight(v.action);

		if (why_apart(&v, &o))
			deny_unclear(&v, why_apart(&v, &o));
		else if (more > 0 || (more == 0 && budget_of(&o)))
			v = o;
	}
	v.tools = names_tools(j);
	return v;
}

/* Adds the form to what must be read, if the verdict is another one with a second method. */
static void want_form(struct judging *j, struct rules_verdict *v)
{
	const struct rules_question *q = j->q;
	struct rules_question two = *q;
	struct rules_verdict o;

	if (!q->form || q->two_methods || v->action == RULES_DENY ||
		(q->call && q->call->apis & CALL_FORM))
		return;
	two.two_methods = true;
	j->q = &two;
	o = judge_messages(j);
	j->q = q;
	if (v->body || o.body || o.rule != v->rule || o.action != v->action)
		*v = (struct rules_verdict){.action = RULES_ALLOW,
			.body = v->body | o.body | CALL_FORM,
			.tools = v->tools};
}

/* Whether rules look into requests to the same server. */
static bool reads_bodies(const struct rules *r, const struct rules_question *q)
{
	for (unsigned i = 0; i < r->count; i++)
		if ((r->rules[i].call || r->rules[i].budget) && flow_matches(&r->rules[i], q) &&
			scheme_matches(&r->rules[i], q->tls))
			return true;
	return false;
}

static struct rules_verdict judge_request(const struct rules *r, const struct rules_question *q)
{
	struct judging j;
	struct rules_verdict v;
	const struct rules_budget *b;

	j.rules = r; /* not the readings of its path, which are large */
	j.q = q;
	j.steps = (struct path_steps){.left = PATH_STEPS_MAX};
	j.widened = false;
	j.batch = j.action = NOT_KNOWN;
	v = judge_messages(&j);
	want_form(&j, &v);
	if (q->upgrade && (v.action == RULES_ALLOW || v.action == RULES_ASK) &&
		!(v.rule && v.rule->upgrade) && reads_bodies(r, q))
		deny_unclear(&v, RULES_UPGRADE);
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
