/* What requests of both protocols share: checking their host, judging and recording them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/str.h"
#include "intercept/exchange_internal.h"
#include "intercept/rewrite.h"

static int begin_scrub(struct exchange *x, struct scrub *ret)
{
	int r = scrub_init(ret, x->intercept, x->server_host);

	ret->said = &x->said;
	return r;
}

int exchange_request_begin(struct exchange *x, struct exchange_request_state *q)
{
	*q = (struct exchange_request_state){.begin_ms = clock_realtime_ns() / NS_PER_MS};
	if (begin_scrub(x, &q->scrub) < 0)
		return -ENOMEM;
	q->intercept = intercept_ref(x->intercept);
	q->open = true;
	return 0;
}

void exchange_request_fail(
	struct exchange_request_state *q, unsigned status, const char *verdict, const char *reason)
{
	if (q->verdict)
		return;
	q->status = status;
	q->verdict = verdict;
	(void)snprintf(q->reason, sizeof(q->reason), "%s", reason); /* may be cut */
}

static int deny(struct exchange_request_state *q, unsigned status, const char *reason)
{
	exchange_request_fail(q, status, "denied", reason);
	return -EINVAL;
}

/* Whether "NAME" or "NAME:PORT" is the host that was dialled. */
static bool is_host(const struct exchange *x, const char *authority)
{
	size_t bytes = strlen(x->host);
	uint64_t port;

	if (strncasecmp(authority, x->host, bytes) != 0)
		return false;
	if (authority[bytes] == '\0')
		return true;
	return authority[bytes] == ':' && str_parse_u64(authority + bytes + 1, &port) == 0 &&
	       port == x->port;
}

static void note_target(struct exchange_request_state *q, const struct exchange_target *t)
{
	(void)snprintf(q->method, sizeof(q->method), "%s", t->method); /* may be cut */
	(void)snprintf(q->path, sizeof(q->path), "%.*s", (int)strcspn(t->path, "?"),
		t->path); /* likewise */
}

static int deny_by(
	struct exchange_request_state *q, const struct exchange_verdict *v, const char *what)
{
	char text[EXCHANGE_REASON_MAX];

	(void)snprintf(
		text, sizeof(text), "rule %s %s", v->rule ? v->rule : "policy", what); /* fits */
	return deny(q, 403, v->reason ? v->reason : text);
}

/* Keeps the headers that rules set. */
static int take_set(struct exchange_request_state *q, const struct exchange_verdict *v)
{
	rewrite_set_done(&q->set);
	for (unsigned i = 0; i < v->setter_count; i++)
		if (rewrite_set_add(&q->set, v->setters[i]) < 0)
			return deny(q, 502, "out of memory");
	return 0;
}

struct exchange_verdict exchange_judge_with(
	struct exchange *x, const struct exchange_request_state *q, struct exchange_request r)
{
	const struct exchange_verdict none = {.action = EXCHANGE_ALLOW};

	r.two_methods = q->two_methods;
	r.two_paths = q->two_paths;
	r.form = q->form;
	r.upgrade = q->upgrade;
	return x->callbacks.judge ? x->callbacks.judge(x->callbacks.arg, &r) : none;
}

/* A held request, whose head was kept. */
static struct exchange_verdict judge_held(
	struct exchange *x, struct exchange_request_state *q, struct exchange_request r)
{
	const char *mark = strchr(r.path, '?');

	r.query = mark ? mark + 1 : NULL;
	return x->kind->judge_held(x, q, r);
}

int exchange_request_judge(
	struct exchange *x, struct exchange_request_state *q, const struct exchange_request *r)
{
	struct exchange_verdict v = q->hold ? judge_held(x, q, *r) : exchange_judge_with(x, q, *r);

	q->body = 0;
	q->tools_named = v.tools;
	if (exchange_budget_take(q, &v, r->call) < 0)
		return deny(q, 502, "out of memory");
	(void)snprintf(q->rule, sizeof(q->rule), "%s", v.rule ? v.rule : ""); /* fits */
	if (v.noted)
		(void)snprintf(
			q->noted, sizeof(q->noted), "%s %s", v.noted, v.noted_rule); /* fits */
	switch (v.action) {
	case EXCHANGE_ANSWER:
		q->answer = v.answer;
		q->status = v.answer->status;
		return -EINVAL;
	case EXCHANGE_ALLOW:
		if (!q->charge || q->charge->charged)
			return take_set(q, &v);
		if (!x->callbacks.ask)
			return deny_by(q, &v, "has a budget, and nobody counts it");
		return take_set(q, &v) < 0 ? -EINVAL : EXCHANGE_HELD;
	case EXCHANGE_READ:
		q->body = v.body;
		return r->call ? deny(q, 403, "the policy has changed: try again") : EXCHANGE_HELD;
	case EXCHANGE_DENY:
		return deny_by(q, &v, "denies this request");
	case EXCHANGE_ASK:
		if (!x->callbacks.ask)
			return deny_by(q, &v, "asks a person, and there is nobody to ask");
		if (q->hold && call_asked_make(v.asks, r->call, &q->hold->asked) < 0)
			return deny(q, 502, "out of memory");
		return take_set(q, &v) < 0 ? -EINVAL : EXCHANGE_HELD;
	}
	return -EINVAL;
}

static const char *query_of(const struct exchange_target *t)
{
	const char *mark = t->query ? NULL : strchr(t->path, '?');

	return mark ? mark + 1 : t->query;
}

int exchange_request_check(
	struct exchange *x, struct exchange_request_state *q, const struct exchange_target *t)
{
	const struct exchange_request r = {.method = t->method,
		.path = t->path,
		.query = query_of(t),
		.headers = t->headers,
		.has_body = t->body_bytes != 0};
	int verdict;

	note_target(q, t);
	q->upgrade = t->upgrade;
	q->two_methods = rules_has_two_methods(t->headers, r.query);
	q->two_paths = rules_has_two_paths(t->headers);
	q->form = rules_may_be_form(t->method, r.has_body, t->headers);
	if (strcmp(t->method, "CONNECT") == 0)
		return deny(q, 405, "CONNECT is not served on an intercepted host");
	if (!t->authority && !t->host)
		return deny(q, 400, "the request does not say for which host it is");
	if ((t->authority && !is_host(x, t->authority)) || (t->host && !is_host(x, t->host)))
		return deny(q, 421, "the request is for another host than this connection");
	if (t->wrong_status)
		return deny(q, t->wrong_status, t->wrong);
	verdict = exchange_request_judge(x, q, &r);
	if (verdict >= 0 && x->server_failed && !x->server_lost) {
		exchange_request_fail(q, 502, "failed", x->server_reason);
		return -EINVAL;
	}
	if (verdict >= 0)
		exchange_model_begin(x, q, t);
	if (verdict >= 0 && q->tools_named && strcmp(t->method, "GET") == 0 &&
		exchange_tools_begin(x, q, t->path, NULL) < 0)
		return -EINVAL;
	if (verdict < 0 || (verdict == 0 && !x->server_failed))
		return verdict;
	return exchange_hold_begin(x, q, t, verdict == 0);
}

int exchange_request_refresh(struct exchange *x, struct exchange_request_state *q)
{
	struct scrub scrub;

	if (begin_scrub(x, &scrub) < 0)
		return -ENOMEM;
	scrub_done(&q->scrub);
	q->scrub = scrub;
	intercept_unref(q->intercept);
	q->intercept = intercept_ref(x->intercept);
	return 0;
}

int exchange_request_rewrite(struct exchange *x, struct exchange_request_state *q,
	const struct http_headers *in, struct fields *out)
{
	struct rewrite_failure why = {.status = 502, .reason = "out of memory"};
	int r = rewrite_request(q->intercept, x->server_host, in, &q->set,
		exchange_model_is_read(q) || q->tools, &q->scrub, out, &q->used, &why);

	q->went = q->went || r == 0;
	if (r == 0)
		return 0;
	q->used = (struct rewrite_used){0}; /* none of them goes out */
	return deny(q, why.status, why.reason);
}

static unsigned name_secrets(
	const struct exchange_request_state *q, const char *names[INTERCEPT_SECRETS_MAX])
{
	unsigned n = 0;

	for (unsigned i = 0; i < q->intercept->secret_count; i++)
		if (rewrite_has_used(&q->used, i))
			names[n++] = q->intercept->secrets[i].name;
	return n;
}

void exchange_request_end(struct exchange *x, struct exchange_request_state *q)
{
	const char *names[INTERCEPT_SECRETS_MAX];
	struct exchange_model model;
	struct exchange_record r = {.method = q->method,
		.path = q->path,
		.status = q->status,
		.verdict = q->verdict ? q->verdict : "allowed",
		.reason = q->verdict ? q->reason : NULL,
		.rule = q->rule[0] ? q->rule : NULL,
		.noted = q->noted[0] ? q->noted : NULL,
		.begin_ms = q->begin_ms,
		.up = q->up,
		.down = q->down,
		.secrets = names};

	if (!q->open)
		return;
	q->open = false;
	exchange_hold_end(x, q);
	exchange_judge_done(x, q);
	r.secret_count = name_secrets(q, names);
	if (exchange_model_end(q, &model))
		r.model = &model;
	r.mcp = exchange_model_mcp(q);
	r.charge = exchange_budget_end(q, r.model);
	x->callbacks.record(x->callbacks.arg, &r);
	free(q->charge);
	q->charge = NULL;
	exchange_model_free(q);
	exchange_tools_free(q);
	rewrite_set_done(&q->set);
	free(q->errors);
	q->errors = NULL;
	scrub_done(&q->scrub);
	intercept_unref(q->intercept);
	q->intercept = NULL;
}

/* Clients of model providers try again by themselves, unless they are told not to. */
static void add_retry(const struct exchange_charge *charge, struct exchange_answer *ret)
{
	(void)snprintf(ret->retry, sizeof(ret->retry), "%llu",
		(unsigned long long)charge->retry_s); /* fits */
	ret->own[0] = ret->headers[0];
	ret->own[1] = (struct rules_header){(char *)"x-should-retry", (char *)"false"};
	ret->own[2] = (struct rules_header){(char *)"retry-after", ret->retry};
	ret->headers = ret->own;
	ret->header_count = charge->retry_s ? 3 : 2;
}

void exchange_request_answer(const struct exchange_request_state *q, struct exchange_answer *ret)
{
	static struct rules_header type[] = {
		{(char *)"content-type", (char *)"text/plain; charset=utf-8"}};
	static struct rules_header json[] = {{(char *)"content-type", (char *)"application/json"}};

	if (q->errors) {
		*ret = (struct exchange_answer){.headers = json, .header_count = 1};
		ret->body = q->errors;
		ret->body_bytes = strlen(q->errors);
		return;
	}
	if (q->answer) {
		*ret = (struct exchange_answer){.headers = q->answer->headers,
			.header_count = q->answer->header_count,
			.body = q->answer->body,
			.body_bytes = q->answer->body_bytes};
		return;
	}
	*ret = (struct exchange_answer){.headers = type, .header_count = 1};
	(void)snprintf(ret->text, sizeof(ret->text), "mayfly: %s\n", q->reason); /* fits */
	ret->body = ret->text;
	ret->body_bytes = strlen(ret->text);
	if (q->charge && q->charge->refused)
		add_retry(q->charge, ret);
}
