#include "egress/record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/net.h"
#include "egress/counts.h"
#include "proto/json_text.h"

uint64_t record_now_ms(void)
{
	return clock_realtime_ns() / NS_PER_MS;
}

/* "ECONNREFUSED", for the five errors that a program may get. */
static const char *error_name(int err)
{
	switch (err) {
	case ECONNREFUSED:
		return "ECONNREFUSED";
	case ENETUNREACH:
		return "ENETUNREACH";
	case ETIMEDOUT:
		return "ETIMEDOUT";
	case EACCES:
		return "EACCES";
	default:
		return "EHOSTUNREACH";
	}
}

static int put_text(struct buf *b, const char *key, const char *text)
{
	int r;

	if (!text || !text[0])
		return 0;
	r = buf_printf(b, ",\"%s\":", key);
	return r ? r : json_text_string(b, text, strlen(text), JSON_TEXT_ASCII);
}

static int put_names(struct buf *b, const char *key, const char *const *names, unsigned n)
{
	int e = 0;

	for (unsigned i = 0; e == 0 && i < n; i++) {
		e = i ? buf_add_str(b, ",") : buf_printf(b, ",\"%s\":[", key);
		e = e ? e : json_text_string(b, names[i], strlen(names[i]), JSON_TEXT_ASCII);
	}
	return e || n == 0 ? e : buf_add_str(b, "]");
}

/* What only a request has. */
static int put_request(struct buf *b, const struct record *r)
{
	unsigned n = r->secret_count < RECORD_SECRETS_MAX ? r->secret_count : RECORD_SECRETS_MAX;
	int e = put_text(b, "method", r->method);

	e = e ? e : put_text(b, "path", r->path);
	if (e == 0 && r->status)
		e = buf_printf(b, ",\"status\":%u", r->status);
	return e ? e : put_names(b, "secrets", r->secrets, n);
}

static int put_model(struct buf *b, const struct exchange_model *m)
{
	int e = put_text(b, "api", m->api);

	e = e ? e : put_text(b, "model", m->model);
	if (e == 0 && m->max_tokens)
		e = buf_printf(b, ",\"maxTokens\":%llu", (unsigned long long)m->max_tokens);
	if (e == 0 && m->said.counted)
		e = buf_printf(b, ",\"tokensIn\":%llu,\"tokensOut\":%llu",
			(unsigned long long)m->said.tokens_in,
			(unsigned long long)m->said.tokens_out);
	e = e ? e : put_text(b, "unclear", m->unclear);
	e = e ? e : put_text(b, "answerCoding", m->coding);
	e = e ? e : put_names(b, "toolsCalled", m->said.tools, m->said.tool_count);
	e = e ? e : put_names(b, "toolsOffered", m->offered.names, m->offered.count);
	return e ? e : put_names(b, "serverTools", m->server_tools.names, m->server_tools.count);
}

static const char *kind_of(const struct record *r)
{
	if (!r->method)
		return "flow";
	return r->model ? "model" : r->tool ? "tool" : "request";
}

static int compose(struct buf *b, const struct record *r)
{
	char address[NET_TEXT_BYTES];
	int e = buf_printf(b,
		"{\"%s\":{\"begin\":%llu,\"end\":%llu,\"generation\":%llu,\"proto\":\"%s\","
		"\"address\":\"%s\",\"port\":%u,\"up\":%llu,\"down\":%llu,\"verdict\":\"%s\"",
		kind_of(r), (unsigned long long)r->begin_ms, (unsigned long long)record_now_ms(),
		(unsigned long long)r->generation, r->proto, net_format(r->address, address),
		r->port, (unsigned long long)r->up, (unsigned long long)r->down, r->verdict);

	e = e ? e : put_text(b, "name", r->name);
	e = e ? e : put_text(b, "rule", r->rule);
	e = e ? e : put_text(b, "reason", r->reason);
	e = e ? e : put_text(b, "noted", r->noted);
	e = e ? e : put_text(b, "error", r->err ? error_name(r->err) : NULL);
	e = e ? e : put_text(b, "sandbox", r->sandbox);
	e = e ? e : put_text(b, "program", r->program);
	if (e == 0 && r->method)
		e = put_request(b, r);
	e = e ? e : put_text(b, "tool", r->tool);
	e = e ? e : put_text(b, "mcp", r->mcp);
	e = e ? e : put_text(b, "budget", r->budget);
	if (e == 0 && r->model)
		e = put_model(b, r->model);
	if (e == 0 && r->pid)
		e = buf_printf(b, ",\"pid\":%u", r->pid);
	return e ? e : buf_add_str(b, "}}\n");
}

static void tell_lost(struct context *c)
{
	struct buf b = BUF_INIT(64);

	if (c->records_lost &&
		buf_printf(&b, "{\"lost\":%llu}\n", (unsigned long long)c->records_lost) == 0 &&
		link_send(&c->link, &b) == 0)
		c->records_lost = 0;
	buf_done(&b);
}

static void copy_text(char *out, size_t cap, const char *text)
{
	(void)snprintf(out, cap, "%s", text ? text : ""); /* or it is cut */
}

static void note(struct context *c, const struct record *r)
{
	struct denial d = {.at_ms = r->begin_ms, .address = r->address, .port = r->port};

	if (!r->method)
		counts_verdict(c, r->verdict);
	if (strcmp(r->verdict, "denied") != 0 || r->model || r->tool)
		return;
	copy_text(d.proto, sizeof(d.proto), r->proto);
	copy_text(d.name, sizeof(d.name), r->name);
	copy_text(d.rule, sizeof(d.rule), r->rule);
	copy_text(d.reason, sizeof(d.reason), r->reason);
	denials_note(&c->denials, &d);
}

void record_send(struct context *c, const struct record *r)
{
	struct buf b = BUF_INIT(RECORD_MAX);

	note(c, r);
	tell_lost(c);
	if (!rate_take(&c->record_rate, RECORDS_PER_SECOND, c->loop.now_ns) ||
		link_is_slow(&c->link) || compose(&b, r) < 0 || link_send(&c->link, &b) < 0)
		c->records_lost++;
	buf_done(&b);
}
