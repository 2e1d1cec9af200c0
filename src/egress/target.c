#include "egress/target.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/place.h"
#include "dialler/broker.h"
#include "egress/why.h"

#define ONLY_HTTPS "it is no HTTPS, which alone is forwarded"

#define UNCLEAR_THERE "its path can be read in two ways, and it is forwarded below another"

void target_deny(struct target *t, const char *rule, const char *what)
{
	char address[NET_TEXT_BYTES];

	(void)snprintf(t->rule, sizeof(t->rule), "%s", rule); /* fits */
	(void)snprintf(t->reason, sizeof(t->reason), "%s:%u is denied: %s",
		t->name[0] && strlen(t->name) < 60 ? t->name : net_format(t->asked, address),
		t->port, what); /* fits, or is cut */
	t->err = ECONNREFUSED;
}

static enum target_step deny(struct target *t, const char *rule, const char *what)
{
	target_deny(t, rule, what);
	return TARGET_DENIED;
}

static enum target_step deny_by(struct target *t, const struct policy_verdict *v)
{
	char what[POLICY_ID_MAX + RULES_REASON_MAX + 16];

	(void)snprintf(what, sizeof(what), "rule %s%s%s", v->rule, v->reason ? ": " : "",
		v->reason ? v->reason : ""); /* fits */
	return deny(t, v->rule, what);
}

bool target_place_open(struct context *c, uint32_t address, const char **ret_why)
{
	enum place place = place_of(address, ret_why);
	int own;

	if (place == PLACE_CLOSED || (place != PLACE_PUBLIC && !policy_opens(c->policy, address)))
		return false;
	own = broker_own(c->loop.broker_fd, address);
	*ret_why = own ? "an address of this host" : NULL;
	return own == 0;
}

static struct policy_verdict judge(
	const struct context *c, const struct target *t, uint32_t address)
{
	const char *name = t->name[0] ? t->name : NULL;

	return t->opaque ? policy_judge_first(c->policy, POLICY_LAYERS_MAX, name, address, t->port)
			 : policy_judge(c->policy, name, address, t->port);
}

/* What decides whether it is forwarded. */
static struct policy_verdict judge_name(const struct context *c, const struct target *t)
{
	return policy_judge_unresolved(c->policy, t->name[0] ? t->name : NULL, t->port);
}

/* Whether a rule forwards it, by its name or at this address. Of what is opaque, too. */
static bool is_forwarded(const struct context *c, const struct target *t, uint32_t address)
{
	return t->name[0] && (judge_name(c, t).forward ||
				     policy_judge(c->policy, t->name, address, t->port).forward);
}

static void take_note(struct target *t, const struct policy_verdict *v)
{
	if (v->noted && !t->noted[0])
		(void)snprintf(
			t->noted, sizeof(t->noted), "%s %s", v->noted, v->noted_rule); /* fits */
}

/* Notes a verdict that does not deny. If a rule asks about one address, it asks about all. */
static void take_verdict(struct target *t, struct policy_verdict v)
{
	t->inspect = t->inspect || v.inspect;
	take_note(t, &v);
	if (!t->asks)
		(void)snprintf(t->rule, sizeof(t->rule), "%s", v.rule); /* fits */
	t->asks = t->asks || v.ask;
}

static enum target_step way(const struct target *t)
{
	return t->asks ? TARGET_ASK : TARGET_DIAL;
}

/* --- forwarded ones --- */

const char *target_server(const struct target *t)
{
	return t->via.name[0] ? t->via.name : t->name;
}

static struct target_via via_of(const struct policy_verdict *v)
{
	struct target_via via = {.floors = v->forward_floors};

	if (!v->forward)
		return (struct target_via){.port = 0};
	via.port = v->forward->port;
	(void)snprintf(via.name, sizeof(via.name), "%s", v->forward->host); /* fits */
	(void)snprintf(via.path, sizeof(via.path), "%s", v->forward->path); /* fits */
	return via;
}

/* By the layers before the one that forwards: it must not lead to what they deny. */
static struct policy_verdict judge_via(
	const struct context *c, const struct target_via *via, uint32_t address)
{
	return policy_judge_floors(c->policy, via->floors,
		&(struct rules_question){.kind = RULES_FLOW,
			.name = via->name,
			.address = address,
			.port = via->port});
}

/* Adds an address of where it is forwarded; else t has why not. */
static bool add_via(struct context *c, struct target *t, uint32_t address, bool own)
{
	struct policy_verdict v = judge_via(c, &t->via, address);
	const char *why;

	if (!v.allow) {
		(void)deny_by(t, &v);
		return false;
	}
	if (!own && !target_place_open(c, address, &why)) {
		(void)deny(t, "place", why);
		return false;
	}
	t->addresses[t->count++] = address;
	return true;
}

/* Goes to a host that the operator names, after its address was added. */
static enum target_step way_to_own(struct target *t, const struct policy_host *h)
{
	t->own = true;
	if (h->port)
		t->dial_port = h->port;
	return way(t);
}

static enum target_step begin_via(
	struct context *c, struct target *t, const struct policy_verdict *v)
{
	const struct policy_host *h;

	if (!v->allow && !v->ask)
		return deny_by(t, v);
	take_verdict(t, *v);
	t->via = via_of(v);
	t->dial_port = t->via.port;
	h = policy_host(c->policy, t->via.name);
	if (!h)
		return TARGET_RESOLVE;
	if (!add_via(c, t, h->address, true))
		return TARGET_DENIED;
	return way_to_own(t, h);
}

static bool is_same_via(const struct target_via *a, const struct target_via *b)
{
	return a->port == b->port && strcmp(a->name, b->name) == 0 && strcmp(a->path, b->path) == 0;
}

/* Whether it is still to go there; the policy may have changed meanwhile. */
static bool is_still_via(const struct context *c, struct target *t)
{
	struct policy_verdict v = judge_name(c, t);
	struct target_via via = via_of(&v);

	t->via.floors = via.floors;
	t->inspect = t->asks = false;
	take_verdict(t, v);
	return is_same_via(&via, &t->via) && (v.allow || v.ask);
}

/* Whether it still goes where it went. */
static bool via_holds(
	struct context *c, struct target *t, const struct policy_verdict *v, uint32_t dialled)
{
	const struct policy_host *h = policy_host(c->policy, t->via.name);
	struct target_via via = via_of(v);
	const char *why;

	if (!is_same_via(&via, &t->via))
		return false;
	t->via.floors = via.floors;
	if (!judge_via(c, &via, dialled).allow)
		return false;
	return h ? h->address == dialled : target_place_open(c, dialled, &why);
}

/* Adds an address of its host; else t has why not. A policy may forward it since it was asked for,
 * or at this address only, where a rule by name denies it. */
static bool add_direct(struct context *c, struct target *t, uint32_t address, bool own)
{
	struct policy_verdict v = judge(c, t, address);
	const char *why;

	if (!v.allow && !v.ask) {
		(void)deny_by(t, &v);
		return false;
	}
	if (is_forwarded(c, t, address)) {
		(void)deny(t, v.rule, "it is forwarded, and not to this address");
		return false;
	}
	if (!own && !target_place_open(c, address, &why)) {
		(void)deny(t, "place", why);
		return false;
	}
	take_verdict(t, v);
	t->addresses[t->count++] = address;
	return true;
}

static enum target_step begin_name(struct context *c, struct target *t)
{
	const struct policy_host *h = policy_host(c->policy, t->name);
	struct policy_verdict v = judge_name(c, t);

	if (v.forward)
		return t->opaque ? deny(t, v.rule, ONLY_HTTPS) : begin_via(c, t, &v);
	if (!h) {
		v = policy_judge_name(c->policy, t->name);
		return v.allow ? TARGET_RESOLVE : deny_by(t, &v);
	}
	if (!add_direct(c, t, h->address, true))
		return TARGET_DENIED;
	return way_to_own(t, h);
}

static enum target_step begin_between(struct context *c, struct target *t)
{
	struct policy_verdict v;

	if (between_name_parse(t->name, &t->port, t->to) < 0)
		return deny(t, "place", "it is no name of a sandbox");
	v = policy_judge_between(c->policy, t->name, t->port);
	if (!v.allow)
		return deny(t, v.rule, "no rule allows other sandboxes by name");
	(void)snprintf(t->rule, sizeof(t->rule), "%s", v.rule); /* fits */
	return TARGET_BETWEEN;
}

/* Adds an address if it may be dialled; else t has why not. */
static bool add(struct context *c, struct target *t, uint32_t address)
{
	return t->via.name[0] ? add_via(c, t, address, false) : add_direct(c, t, address, false);
}

enum target_step target_begin(
	struct context *c, uint32_t address, uint16_t port, bool opaque, struct target *t)
{
	const char *name;

	*t = (struct target){.asked = address, .port = port, .dial_port = port, .opaque = opaque};
	if (!c->policy)
		return deny(t, "none", "no policy is known yet");
	if (address == WHY_ADDRESS)
		return deny(t, "place", WHY_NAME " answers HTTP on port 80 only");
	if (port == 0)
		return deny(t, "place", "port 0");
	if (!place_is_synthetic(address))
		return add(c, t, address) ? way(t) : TARGET_DENIED;
	name = names_name(c->names, address);
	if (!name)
		return deny(t, "place", "it stands for no name any more");
	(void)snprintf(t->name, sizeof(t->name), "%s", name); /* fits */
	return between_name_is(name) ? begin_between(c, t) : begin_name(c, t);
}

enum target_step target_resolved(struct context *c, struct target *t, const struct dns_answer *a)
{
	char rule[sizeof(t->rule)];

	if (t->via.name[0] && !is_still_via(c, t)) {
		t->err = EHOSTUNREACH;
		return TARGET_FAILED;
	}
	memcpy(rule, t->rule, sizeof(rule));
	for (unsigned i = 0; i < a->count; i++) {
		bool asked = t->asks;

		if (add(c, t, a->addresses[i]) && !asked && !t->via.name[0])
			memcpy(rule, t->rule, sizeof(rule));
	}
	if (t->count) {
		memcpy(t->rule, rule, sizeof(rule)); /* an address that was denied left another */
		t->reason[0] = '\0';
		t->err = 0;
		return way(t);
	}
	if (a->count)
		return TARGET_DENIED;
	t->err = EHOSTUNREACH;
	return TARGET_FAILED;
}

bool target_is_proxied(const struct context *c, const struct target *t)
{
	return c->policy && c->policy->proxies && !t->own;
}

bool target_holds(struct context *c, struct target *t, uint32_t dialled)
{
	const char *name = t->name[0] ? t->name : NULL, *why;
	const struct policy_host *h = name ? policy_host(c->policy, name) : NULL;
	struct policy_verdict v;

	if (t->to[0])
		return policy_judge_between(c->policy, name, t->port).allow;
	v = t->via.name[0] ? judge_name(c, t) : judge(c, t, dialled);
	t->inspect = v.inspect;
	if (!v.allow && !(v.ask && t->consented))
		return false;
	if (t->via.name[0])
		return via_holds(c, t, &v, dialled);
	if (is_forwarded(c, t, dialled))
		return false;
	return h ? h->address == dialled : target_place_open(c, dialled, &why);
}

bool target_is_by_name(const struct context *c, const struct target *t, uint32_t dialled)
{
	return t->name[0] && !t->to[0] &&
	       !policy_judge_first(c->policy, POLICY_LAYERS_MAX, NULL, dialled, t->port).allow;
}

bool target_is_opaque(struct context *c, struct target *t, uint32_t dialled)
{
	struct policy_verdict v;

	t->opaque = true;
	if (t->via.name[0]) {
		(void)deny(t, t->rule, ONLY_HTTPS);
		return false;
	}
	if (!t->inspect)
		return true;
	t->inspect = false;
	v = judge(c, t, dialled);
	if (v.allow || (v.ask && t->consented))
		return true;
	if (v.ask)
		v.reason = "it is no HTTP, and nobody can be asked once it is connected";
	(void)deny_by(t, &v);
	return false;
}

/* Of a connection that is forwarded, only the rule that forwards it sets headers: those of others
 * are for the first host, or for servers that others forward to. */
static void drop_setters(struct policy_verdict *v, const struct rules_forward *forward)
{
	unsigned n = 0;

	for (unsigned i = 0; i < v->setter_count; i++)
		if (v->setters[i]->forward && v->setters[i]->forward == forward)
			v->setters[n++] = v->setters[i];
	v->setter_count = n;
}

/* Judges it once more, with where it goes. clean: its path; NULL: it can be read in two ways. */
static struct policy_verdict judge_there(struct context *c, const struct target *t,
	uint32_t dialled, const char *clean, struct policy_verdict v,
	struct rules_question *question)
{
	char there[RULES_FORWARD_PATH_MAX + RULES_PATH_MAX + 1] = "";

	drop_setters(&v, judge_name(c, t).forward);
	if (t->via.path[0] && (!clean || clean[0] != '/'))
		return (struct policy_verdict){.rule = v.rule, .reason = UNCLEAR_THERE};
	if (clean)
		(void)snprintf(there, sizeof(there), "%s%s", t->via.path, clean); /* fits */
	question->name = t->via.name;
	question->address = dialled;
	question->no_address = false;
	question->port = t->via.port;
	question->path = clean && strlen(there) <= RULES_PATH_MAX ? there : NULL;
	return policy_harder(v, policy_judge_floors(c->policy, t->via.floors, question));
}

struct policy_verdict target_judge_request(struct context *c, const struct target *t,
	uint32_t dialled, bool tls, const struct exchange_request *q)
{
	char clean[RULES_PATH_MAX + 1];
	bool good = path_clean(q->path, strcspn(q->path, "?"), clean) == 0;
	struct rules_question question = {.kind = RULES_REQUEST,
		.name = t->name[0] ? t->name : NULL,
		.address = dialled,
		.no_address = t->via.name[0],
		.port = t->port,
		.tls = tls,
		.method = q->method,
		.two_methods = q->two_methods,
		.two_paths = q->two_paths,
		.path = good && !q->two_paths ? clean : NULL,
		.query = q->query,
		.headers = q->headers,
		.upgrade = q->upgrade,
		.has_body = q->has_body,
		.form = q->form,
		.call = q->call};
	struct policy_verdict v = policy_judge_question(c->policy, &question);

	return t->via.name[0] ? judge_there(c, t, dialled, question.path, v, &question) : v;
}

bool target_shows_tool(struct context *c, const struct target *t, uint32_t dialled, bool tls,
	const char *path, const char *tool)
{
	struct call_message message = {.method = "tools/call", .tool = tool, .any_arguments = true};
	const struct call call = {
		.apis = CALL_MODELS | CALL_MCP, .messages = &message, .message_count = 1};
	struct policy_verdict v = target_judge_request(c, t, dialled, tls,
		&(struct exchange_request){
			.method = "POST", .path = path, .has_body = true, .call = &call});

	return v.allow || v.ask;
}
