#include "egress/consent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "egress/context.h"
#include "intercept/exchange.h"
#include "intercept/held_headers.h"

enum { TELL_MS = 50 }; /* until a daemon that reads slowly is told more */

static int say(struct consent *k)
{
	struct buf line = BUF_INIT(CONSENT_LINE_MAX);
	int r = buf_printf(
		&line, "{\"ask\":{\"id\":%llu,%s}\n", (unsigned long long)k->id, k->members + 1);

	r = r ? r : link_send(&k->context->link, &line);
	buf_done(&line);
	return r;
}

static void leave(struct consent *k)
{
	k->context->consent_count--;
	*(k->previous ? &k->previous->next : &k->context->consents) = k->next;
	if (k->next)
		k->next->previous = k->previous;
	k->context = NULL;
	free(k->members);
	k->members = NULL;
}

/* What is no text is left out. */
static void put(json_t *object, const char *name, const char *value)
{
	if (value && value[0])
		(void)json_object_set_new(object, name, json_string(value)); /* no UTF-8: without */
}

/* What is known of a budget; amounts without a limit are left out. */
static json_t *budget_json(const struct exchange_budget *b)
{
	const struct rules_amounts *l = &b->limits, *m = &b->most;

	return json_pack("{s:s, s:s, s:s, s:b, s:{s:I, s:I, s:I}, s:{s:I, s:I, s:I}}", "id", b->id,
		"per", rules_budget_per_word(b->per), "window", rules_budget_window_word(b->window),
		"ask", b->ask, "limits", "requests", (json_int_t)l->requests, "tokens",
		(json_int_t)l->tokens, "micros", (json_int_t)l->micros, "most", "requests",
		(json_int_t)m->requests, "tokens", (json_int_t)m->tokens, "micros",
		(json_int_t)m->micros);
}

static int put_charge(json_t *object, const struct exchange_charge *charge)
{
	json_t *list = json_array();
	int r = list ? 0 : -1;

	for (unsigned i = 0; r == 0 && i < charge->count; i++)
		r = json_array_append_new(list, budget_json(&charge->list[i]));
	return r ? r
		 : json_object_set_new(object, "charge",
			   json_pack("{s:b, s:o}", "asks", charge->asks, "budgets", list));
}

static int put_names(json_t *object, const char *name, const struct exchange_names *names)
{
	json_t *list = names->count ? json_array() : NULL;

	for (unsigned i = 0; i < names->count; i++)
		(void)json_array_append_new(list, json_string(names->names[i])); /* or has less */
	return list ? json_object_set_new(object, name, list) : 0;
}

/* Without the digest, a decision for longer would cover more. */
static int put_call(json_t *object, const struct exchange_call *c)
{
	json_t *call = json_pack("{s:s}", "api", c->api);
	int r = call ? 0 : -1;

	put(call, "model", c->model);
	r = r ? r : put_names(call, "serverTools", &c->server_tools);
	r = r ? r : put_names(call, "tools", &c->tools);
	r = r ? r : put_names(call, "methods", &c->methods);
	r = r ? r : json_object_set(object, "call", call);
	json_decref(call);
	return r ? r : json_object_set_new(object, "callDigest", json_string(c->digest));
}

static int put_headers(json_t *object, const struct exchange_question *q)
{
	json_t *list = q->header_count ? json_array() : NULL;

	for (unsigned i = 0; i < q->header_count; i++)
		(void)json_array_append_new(
			list, json_pack("{s:s, s:s}", "name", q->headers[i].name, "value",
				      q->headers[i].value)); /* or has less */
	return list ? json_object_set_new(object, "headers", list) : 0;
}

static void put_hidden(json_t *object, const struct exchange_question *q)
{
	json_t *list = q->hidden_count ? json_array() : NULL;

	for (unsigned i = 0; i < q->hidden_count; i++)
		(void)json_array_append_new(
			list, json_string(q->hidden_names[i])); /* or has less */
	if (list)
		(void)json_object_set_new(object, "hidden", list); /* or without */
}

static int put_request(json_t *object, const struct exchange_question *q)
{
	put(object, "method", q->method);
	put(object, "path", q->path);
	put(object, "preview", q->preview);
	put(object, "bodyCoding", q->coding);
	put(object, "pathDigest", q->path_digest);
	put(object, "digest", q->digest);
	if (q->body_bytes >= 0)
		(void)json_object_set_new(
			object, "bodyBytes", json_integer(q->body_bytes)); /* or without */
	if (q->partial)
		(void)json_object_set_new(object, "partial", json_true()); /* likewise */
	if (q->unseen)
		(void)json_object_set_new(object, "unseen", json_true()); /* likewise */
	if (q->hidden)
		(void)json_object_set_new(
			object, "hiddenBytes", json_integer((json_int_t)q->hidden)); /* likewise */
	put_hidden(object, q);
	put(object, "actionDigest", q->action_digest);
	return put_headers(object, q);
}

/* Writes an object whose id can be inserted behind its brace. Strings from the guest may have any
 * bytes. */
static char *write_members(const struct consent_question *q)
{
	json_t *object = json_pack("{s:i}", "port", (int)q->port);
	const struct exchange_charge *charge = q->request ? q->request->charge : NULL;
	const struct exchange_call *call = q->request ? q->request->call : NULL;
	char *text = NULL;

	if (object) {
		put(object, "rule", q->rule);
		put(object, "host", q->host);
		put(object, "address", q->address);
		put(object, "program", q->program);
		put(object, "scheme", q->scheme);
		if ((!q->request || put_request(object, q->request) == 0) &&
			(!charge || put_charge(object, charge) == 0) &&
			(!call || put_call(object, call) == 0))
			text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII);
	}
	json_decref(object);
	return text;
}

int consent_ask(struct context *c, struct consent *k, const struct consent_question *q)
{
	int r;

	if (c->consent_count >= CONSENTS_MAX)
		return -EMSGSIZE;
	k->members = write_members(q);
	if (!k->members)
		return -ENOMEM;
	k->context = c;
	k->id = ++c->consent_ids;
	r = say(k);
	k->told = true;
	c->consent_count++;
	k->previous = NULL;
	k->next = c->consents;
	if (k->next)
		k->next->previous = k;
	c->consents = k;
	if (r < 0)
		leave(k);
	return r;
}

void consent_end(struct consent *k, bool judged)
{
	struct buf line = BUF_INIT(64);
	struct context *c = k->context;

	if (!c)
		return;
	if (buf_printf(&line, "{\"ask\":{\"id\":%llu,\"end\":true%s}}\n", (unsigned long long)k->id,
		    judged ? ",\"judged\":true" : "") == 0)
		(void)link_send(&c->link, &line); /* else it answers in vain */
	buf_done(&line);
	leave(k);
}

static void tell_rest(void *arg)
{
	struct context *c = arg;
	struct buf all = BUF_INIT(64);

	for (struct consent *k = c->consents; k; k = k->next) {
		if (k->told)
			continue;
		if (link_is_slow(&c->link) || say(k) < 0) {
			loop_start(&c->loop, &c->consent_timer, TELL_MS);
			return;
		}
		k->told = true;
	}
	if (buf_add_str(&all, "{\"ask\":{\"all\":true}}\n") < 0 || link_send(&c->link, &all) < 0)
		loop_start(&c->loop, &c->consent_timer, TELL_MS);
	buf_done(&all);
}

void consent_tell(struct context *c)
{
	for (struct consent *k = c->consents; k; k = k->next)
		k->told = false;
	c->consent_timer.on = tell_rest;
	c->consent_timer.arg = c;
	tell_rest(c);
}

/* What it took less, or more, than it was charged with; NULL: just that. */
static json_t *settled_json(const struct exchange_budget *b)
{
	json_int_t tokens = (json_int_t)b->took.tokens - (json_int_t)b->most.tokens;
	json_int_t micros = (json_int_t)b->took.micros - (json_int_t)b->most.micros;

	if (!tokens && !micros)
		return NULL;
	return json_pack("{s:s, s:s, s:s, s:I, s:I}", "id", b->id, "per",
		rules_budget_per_word(b->per), "window", rules_budget_window_word(b->window),
		"tokens", tokens, "micros", micros);
}

void consent_settle(struct context *c, const struct exchange_charge *charge)
{
	struct buf line = BUF_INIT(CONSENT_LINE_MAX);
	json_t *list = json_array(), *all;
	char *text = NULL;

	for (unsigned i = 0; i < charge->count; i++)
		(void)json_array_append_new(list, settled_json(&charge->list[i])); /* if any */
	all = json_array_size(list) ? json_pack("{s:{s:I, s:O}}", "spent", "day",
					      (json_int_t)charge->day, "budgets", list)
				    : NULL;
	if (all)
		text = json_dumps(all, JSON_COMPACT | JSON_ENSURE_ASCII);
	if (text && buf_add_str(&line, text) == 0 && buf_add_str(&line, "\n") == 0)
		(void)link_send(&c->link, &line); /* or it stays charged */
	buf_done(&line);
	free(text);
	json_decref(all);
	json_decref(list);
}

static uint64_t number(const json_t *message, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(message, key));

	return n > 0 ? (uint64_t)n : 0;
}

int consent_take(struct context *c, const json_t *message)
{
	const json_t *charged = json_object_get(message, "charged");
	const struct exchange_charged what = {.day = number(charged, "day"),
		.retry_s = number(charged, "retryAfter"),
		.text = json_string_value(json_object_get(charged, "text")),
		.refused = json_is_true(json_object_get(charged, "refused"))};
	const char *decision = json_string_value(json_object_get(message, "decision"));
	const char *reason = json_string_value(json_object_get(message, "reason"));
	const json_t *id = json_object_get(message, "id");
	char text[CONSENT_REASON_MAX + 1];
	struct consent *k = c->consents;
	bool allowed = decision && strcmp(decision, "allow") == 0;

	if (!json_is_integer(id) || !decision || (!allowed && strcmp(decision, "deny") != 0))
		return -EINVAL;
	while (k && (json_int_t)k->id != json_integer_value(id))
		k = k->next;
	if (!k)
		return 0;						/* it has ended meanwhile */
	(void)snprintf(text, sizeof(text), "%s", reason ? reason : ""); /* or is cut */
	leave(k);
	k->done(k->arg,
		&(struct consent_answer){
			.allowed = allowed, .reason = text, .charged = charged ? &what : NULL});
	return 0;
}
