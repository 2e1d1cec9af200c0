/* Requests of intercepted connections: judging them, recording them, and asking a person about
 * them. The server may have closed before a request is allowed. Then it is dialled again, at the
 * address that was judged. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/place.h"
#include "egress/flow_internal.h"
#include "egress/wrap.h"

enum {
	STALE_MS = 5000, /* a server that heard nothing for so long may be about to close */
};

/* A request that waits. */
struct flow_held {
	struct flow_held *next;
	struct flow *flow;
	uint64_t id, since_ns;
	struct consent consent;
};

/* Beside the request: the model, or each tool. */
static void record_model(const struct flow *f, const struct exchange_model *m, struct record r)
{
	r.secret_count = 0;
	r.mcp = NULL;
	if (m->model) {
		r.model = m;
		record_send(f->flows->context, &r);
	}
	r.model = NULL;
	for (unsigned i = 0; i < m->tool_count; i++) {
		r.tool = m->tools[i].name;
		record_send(f->flows->context, &r);
	}
}

/* Whether only the host of its requests matters. */
static bool is_unjudged(const struct flow *f)
{
	return f->reads_host && !f->target.inspect;
}

void flow_record_request(void *arg, const struct exchange_record *q)
{
	const struct flow *f = arg;
	struct record r = flow_record_of(f, q->verdict);

	if (is_unjudged(f) && strcmp(q->verdict, "denied") != 0)
		return; /* the flow has a record */
	r.reason = q->reason;
	r.noted = q->noted;
	if (q->rule)
		r.rule = q->rule;
	r.begin_ms = q->begin_ms;
	r.up = q->up;
	r.down = q->down;
	r.method = q->method;
	r.path = q->path;
	r.status = q->status;
	r.secrets = q->secrets;
	r.secret_count = q->secret_count;
	r.mcp = q->mcp;
	if (q->charge) {
		consent_settle(f->flows->context, q->charge);
		r.budget = q->charge->text;
	}
	record_send(f->flows->context, &r);
	if (q->model)
		record_model(f, q->model, r);
}

struct exchange_verdict flow_judge_request(void *arg, const struct exchange_request *q)
{
	struct flow *f = arg;
	struct policy_verdict v =
		is_unjudged(f) ? (struct policy_verdict){.allow = true, .rule = f->target.rule}
			       : target_judge_request(
					 f->flows->context, &f->target, f->dialled, f->tls, q);
	struct exchange_verdict said = {.action = v.body     ? EXCHANGE_READ
						  : v.ask    ? EXCHANGE_ASK
						  : !v.allow ? EXCHANGE_DENY
						  : v.answer ? EXCHANGE_ANSWER
							     : EXCHANGE_ALLOW,
		.rule = v.rule,
		.reason = v.reason,
		.answer = v.answer,
		.asks = v.asks,
		.body = v.body,
		.tools = v.tools,
		.noted = v.noted,
		.noted_rule = v.noted_rule,
		.setter_count = v.setter_count,
		.budgets = f->budgets,
		.budget_count = v.budget_count};

	_Static_assert(sizeof(said.setters) == sizeof(v.setters), "one for each layer");
	memcpy(f->budgets, v.budgets, sizeof(f->budgets));
	memcpy(said.setters, v.setters, sizeof(said.setters));
	return said;
}

bool flow_shows_tool(void *arg, const char *path, const char *tool)
{
	struct flow *f = arg;

	return target_shows_tool(f->flows->context, &f->target, f->dialled, f->tls, path, tool);
}

/* --- those that wait for a person --- */

static struct flow_held *take_held(struct flow *f, uint64_t id)
{
	struct flow_held **at = &f->held, *h;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	h = *at;
	if (h)
		*at = h->next;
	return h;
}

static void on_decided(void *arg, const struct consent_answer *a)
{
	struct flow_held *h = arg;
	struct flow *f = h->flow;
	uint64_t id = h->id, waited_ms = (f->flows->context->loop.now_ns - h->since_ns) / NS_PER_MS;

	free(take_held(f, id));
	middle_decide(f->middle, id, a, waited_ms >= STALE_MS); /* may free f */
}

const char *flow_ask_request(void *arg, const struct exchange_question *q)
{
	struct flow *f = arg;
	struct context *c = f->flows->context;
	struct flow_held *h = calloc(1, sizeof(*h));
	char address[NET_TEXT_BYTES];
	const struct consent_question question = {.rule = q->rule,
		.host = f->target.name,
		.address = net_format(f->dialled, address),
		.port = f->target.port,
		.program = f->open.name,
		.scheme = f->tls ? "https" : "http",
		.request = q};

	if (!h)
		return "out of memory";
	*h = (struct flow_held){
		.next = f->held, .flow = f, .id = q->id, .since_ns = c->loop.now_ns};
	h->consent.done = on_decided;
	h->consent.arg = h;
	if (consent_ask(c, &h->consent, &question) < 0) {
		free(h);
		return "nobody can be asked: too much waits for a person";
	}
	f->held = h;
	return NULL;
}

void flow_unask_request(void *arg, uint64_t id, bool judged)
{
	const struct flow *f = arg;
	struct flow_held *h = take_held(arg, id);

	if (h)
		consent_end(&h->consent, judged || f->forbidden);
	free(h);
}

/* --- another connection with the server --- */

static void on_renewed(struct flow *f, int fd, const char *why)
{
	struct loop *l = &f->flows->context->loop;

	if (fd >= 0) {
		f->remote.fd = fd;
		if (loop_add(l, &f->remote, fd, EPOLLIN) < 0)
			why = "out of memory";
	}
	middle_renew(f->middle, fd >= 0 || why ? why : "the server cannot be reached any more");
}

static void on_redialled(void *arg, int fd, uint32_t address)
{
	on_renewed(arg, fd, NULL);
}

static void on_tunnel(void *arg, int fd, const char *why)
{
	struct flow *f = arg;

	f->wrap = fd >= 0 ? tunnel_take_wrap(f->tunnel) : NULL;
	tunnel_free(f->tunnel);
	f->tunnel = NULL;
	on_renewed(f, fd, why);
}

const char *flow_redial(void *arg)
{
	struct flow *f = arg;
	struct context *c = f->flows->context;
	struct target *t = &f->target;
	unsigned ms = c->policy->limits.connect_seconds * 1000;

	flow_close_remote(f, false);
	f->remote.fd = -1;
	wrap_leave(f->wrap, false);
	f->wrap = NULL;
	if (target_is_proxied(c, t)) {
		f->tunnel = tunnel_start(c, t, ms, on_tunnel, f);
		return f->tunnel ? NULL : "the server cannot be reached any more";
	}
	f->dial.done = on_redialled;
	f->dial.arg = f;
	dial_start(&f->dial, &c->loop, &f->dialled, 1, t->dial_port, ms);
	return NULL;
}
