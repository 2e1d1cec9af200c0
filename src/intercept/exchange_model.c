/* Records of requests to models and MCP servers, made from requests and answers as they pass. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "intercept/exchange_internal.h"
#include "intercept/gunzip.h"
#include "intercept/http2_memory.h"
#include "intercept/model_answer.h"

enum {
	DENIED_CODE = -32001,  /* of those that JSON-RPC leaves to servers */
	READ_BYTES = 12 << 10, /* that the reading of a request and its answer takes */
};

struct names {
	char *list[EXCHANGE_NAMES_MAX + 1]; /* owned */
	unsigned count;
};

struct exchange_model_state {
	unsigned api;
	char model[CALL_MODEL_MAX + 1];
	uint64_t max_tokens;
	struct call_reader *reader; /* of a body that nobody judges; NULL */
	struct model_answer *answer;
	struct exchange_tool tools[EXCHANGE_TOOLS_MAX]; /* of MCP; names are owned */
	unsigned tool_count;
	const char *mcp; /* as in struct exchange_record */
	struct names offered, server_tools;
	const char *unclear; /* static, or NULL */
	char coding[32];     /* of an answer that cannot be read; or "" */
};

/* Requests that no rule judges are read only if there is room for a reader. */
static bool has_place(struct exchange *x, struct exchange_request_state *q)
{
	if (q->body)
		return true;
	if (!http2_budget_take(x->budget, READ_BYTES))
		return false;
	q->budgeted += READ_BYTES;
	return true;
}

void exchange_model_begin(
	struct exchange *x, struct exchange_request_state *q, const struct exchange_target *t)
{
	char clean[RULES_PATH_MAX + 1];
	bool good = path_clean(t->path, strcspn(t->path, "?"), clean) == 0;
	unsigned api = good && strcmp(t->method, "POST") == 0 ? call_api_of_path(clean) : 0;

	if ((!api && !(q->body & CALL_MCP)) || !has_place(x, q))
		return;
	q->model = calloc(1, sizeof(*q->model));
	if (!q->model) /* without: it is told as any request */
		return;
	q->model->api = api;
	if (!q->body)
		q->model->reader = call_reader_new(api, clean, t->headers);
	if (q->model->reader)
		call_reader_keep_first(q->model->reader, EXCHANGE_NAMES_MAX + 1);
}

void exchange_model_take_body(struct exchange_request_state *q, const void *data, size_t n)
{
	if (q->model && q->model->reader)
		(void)call_reader_feed(q->model->reader, data, n); /* what is unclear says less */
}

static void add_tool(struct exchange_model_state *m, const char *name)
{
	char *copy = m->tool_count < EXCHANGE_TOOLS_MAX ? strdup(name) : NULL;

	if (copy)
		m->tools[m->tool_count++].name = copy;
}

/* Names come from the guest, and must not make a record too large to be kept. */
static bool is_plain(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < n; i++)
		if (!isgraph((unsigned char)name[i]) || name[i] == '"' || name[i] == '\\')
			return false;
	return n && n <= EXCHANGE_NAME_MAX;
}

static void keep_names(struct names *to, const struct call_names *from)
{
	bool all = true;
	char *copy;

	for (unsigned i = 0; i < from->count; i++) {
		copy = to->count < EXCHANGE_NAMES_MAX && is_plain(from->names[i])
			       ? strdup(from->names[i])
			       : NULL;
		if (copy)
			to->list[to->count++] = copy;
		all = all && copy;
	}
	copy = all ? NULL : strdup(EXCHANGE_NAMES_CUT);
	if (copy)
		to->list[to->count++] = copy;
}

static void free_names(struct names *n)
{
	for (; n->count; n->count--)
		free(n->list[n->count - 1]);
}

static struct exchange_names shown(const struct names *n)
{
	return (struct exchange_names){(const char *const *)n->list, n->count};
}

static bool is_for_tools(const struct call *call)
{
	for (unsigned i = 0; i < call->message_count; i++)
		if (!call->messages[i].tool && !call_is_session(call->messages[i].method))
			return false;
	return !call->unclear && !call->unclear_mcp;
}

static void judged_mcp(struct exchange_model_state *m, const struct call *call)
{
	unsigned calls = 0;

	for (unsigned i = 0; i < call->message_count; i++) {
		if (!call->messages[i].tool)
			continue;
		add_tool(m, call->messages[i].tool);
		calls++;
	}
	if (call->apis & CALL_MCP)
		m->mcp = is_for_tools(call) && m->tool_count == calls ? "tools" : "other";
}

void exchange_model_judged(struct exchange_request_state *q, const struct call *call)
{
	struct exchange_model_state *m = q->model;

	if (!m)
		return;
	(void)snprintf(m->model, sizeof(m->model), "%s", call->model); /* fits */
	m->max_tokens = call->limited ? call->max_tokens : 0;
	m->unclear = call->unclear;
	free_names(&m->offered);
	free_names(&m->server_tools);
	keep_names(&m->offered, &call->tools);
	keep_names(&m->server_tools, &call->server_tools);
	judged_mcp(m, call);
}

/* NULL without memory. */
static json_t *error_of(const struct call_message *m, const char *text)
{
	return json_pack("{s:s, s:O, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", m->id, "error", "code",
		DENIED_CODE, "message", text);
}

void exchange_model_deny(struct exchange_request_state *q, const struct call *call)
{
	char text[EXCHANGE_REASON_MAX + 16];
	json_t *all = q->verdict ? json_array() : NULL, *one;

	(void)snprintf(text, sizeof(text), "mayfly: %s", q->reason); /* fits */
	for (unsigned i = 0; all && call && i < call->message_count; i++) {
		const struct call_message *m = &call->messages[i];

		if (m->method && m->id)
			(void)json_array_append_new(all, error_of(m, text)); /* or it has less */
	}
	one = call && call->batch ? all : json_array_get(all, 0);
	if (json_array_size(all) && !q->errors)
		q->errors = json_dumps(one, JSON_COMPACT | JSON_ENSURE_ASCII);
	if (q->errors)
		q->status = 200;
	json_decref(all);
}

bool exchange_model_is_read(const struct exchange_request_state *q)
{
	return q->model && q->model->api;
}

/* Reads a compressed one along if there is room. */
static bool has_place_for(struct exchange *x, struct exchange_request_state *q, const char *coding)
{
	if (!coding)
		return true;
	if (!http2_budget_take(x->budget, GUNZIP_BYTES))
		return false;
	q->budgeted += GUNZIP_BYTES;
	return true;
}

void exchange_model_begin_answer(struct exchange *x, struct exchange_request_state *q,
	unsigned status, const struct http_headers *headers)
{
	const char *coding = http_header_get(headers, "content-encoding");
	bool coded = rewrite_is_coded(headers),
	     one = http_header_count(headers, "content-encoding") < 2;

	if (!exchange_model_is_read(q) || status != 200)
		return;
	if (one && has_place_for(x, q, coded ? coding : NULL))
		q->model->answer = model_answer_new(
			http_header_get(headers, "content-type"), coded ? coding : NULL);
	if (coded && !q->model->answer)
		(void)snprintf(q->model->coding, sizeof(q->model->coding), "%s", coding); /* cut */
}

void exchange_model_take_answer(struct exchange_request_state *q, const void *data, size_t n)
{
	if (q->model && q->model->answer)
		model_answer_feed(q->model->answer, data, n);
}

bool exchange_model_end(struct exchange_request_state *q, struct exchange_model *ret)
{
	struct exchange_model_state *m = q->model;

	if (!m)
		return false;
	if (m->reader)
		exchange_model_judged(q, call_reader_end(m->reader));
	*ret = (struct exchange_model){.api = m->api ? call_api_word(m->api) : NULL,
		.model = m->model[0] ? m->model : NULL,
		.max_tokens = m->max_tokens,
		.offered = shown(&m->offered),
		.server_tools = shown(&m->server_tools),
		.unclear = m->unclear,
		.coding = m->coding[0] ? m->coding : NULL,
		.said = model_answer_said(m->answer),
		.tools = m->tools,
		.tool_count = m->tool_count};
	return ret->tool_count || ret->model;
}

const char *exchange_model_mcp(const struct exchange_request_state *q)
{
	return q->model ? q->model->mcp : NULL;
}

void exchange_model_free(struct exchange_request_state *q)
{
	struct exchange_model_state *m = q->model;

	if (!m)
		return;
	for (unsigned i = 0; i < m->tool_count; i++)
		free((char *)m->tools[i].name);
	free_names(&m->offered);
	free_names(&m->server_tools);
	call_reader_free(m->reader);
	model_answer_free(m->answer);
	free(m);
	q->model = NULL;
}
