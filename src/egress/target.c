#include "egress/target.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/place.h"
#include "egress/own.h"
#include "egress/why.h"

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
	own = own_is(c->own_fd, address);
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

static enum target_step begin_name(struct context *c, struct target *t)
{
	const struct policy_host *h = policy_host(c->policy, t->name);
	struct policy_verdict v;

	if (!h) {
		v = policy_judge_name(c->policy, t->name);
		return v.allow ? TARGET_RESOLVE : deny_by(t, &v);
	}
	v = judge(c, t, h->address);
	if (!v.allow && !v.ask)
		return deny_by(t, &v);
	take_verdict(t, v);
	t->addresses[t->count++] = h->address;
	t->own = true;
	if (h->port)
		t->dial_port = h->port;
	return way(t);
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
	struct policy_verdict v = judge(c, t, address);
	const char *why;

	if (!v.allow && !v.ask) {
		(void)deny_by(t, &v);
		return false;
	}
	if (!target_place_open(c, address, &why)) {
		(void)deny(t, "place", why);
		return false;
	}
	take_verdict(t, v);
	t->addresses[t->count++] = address;
	return true;
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
	char rule[sizeof(t->rule)] = "";

	for (unsigned i = 0; i < a->count; i++) {
		bool asked = t->asks;

		if (add(c, t, a->addresses[i]) && !asked)
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
	v = judge(c, t, dialled);
	t->inspect = v.inspect;
	if (!v.allow && !(v.ask && t->consented))
		return false;
	return h ? h->address == dialled : target_place_open(c, dialled, &why);
}

bool target_is_opaque(struct context *c, struct target *t, uint32_t dialled)
{
	struct policy_verdict v;

	t->opaque = true;
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

struct policy_verdict target_judge_request(struct context *c, const struct target *t,
	uint32_t dialled, bool tls, const struct exchange_request *q)
{
	char clean[RULES_PATH_MAX + 1];
	bool good = path_clean(q->path, strcspn(q->path, "?"), clean) == 0;

	return policy_judge_question(c->policy, &(struct rules_question){.kind = RULES_REQUEST,
							.name = t->name[0] ? t->name : NULL,
							.address = dialled,
							.port = t->port,
							.tls = tls,
							.method = q->method,
							.path = good ? clean : NULL,
							.has_body = q->has_body,
							.call = q->call});
}
