/* Messages of MCP: one JSON-RPC 2.0 message, or a batch. They are small compared to requests for
 * models, and arguments may be any JSON, so the body is parsed as a tree. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "proto/json_tree.h"
#include "rules/call_internal.h"
#include "rules/fold.h"

static void refuse(struct call_reader *r, const char *why)
{
	if (!r->call.unclear_mcp)
		r->call.unclear_mcp = why;
}

/* Whether a server could find another member under one of these names than we do. */
static bool has_odd_member(const json_t *object, const char *const *names)
{
	for (const char *const *n = names; *n; n++)
		if (fold_find(object, *n) == FOLD_ODD)
			return true;
	return false;
}

static bool replaces_method(const json_t *object)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)object, key, v)
	{
		if (fold_is_override(key))
			return true;
	}
	return false;
}

static void take_call(struct call_reader *r, const json_t *params, struct call_message *m)
{
	static const char *const names[] = {"name", "arguments", NULL};

	m->tool = json_string_value(json_object_get(params, "name"));
	m->arguments = json_object_get(params, "arguments");
	if (!m->tool || strlen(m->tool) > CALL_NAME_MAX || has_odd_member(params, names))
		refuse(r, "it calls a tool without a name");
}

/* A method in another spelling is one that some server may take for a call. */
static bool is_odd_call(const char *method)
{
	return strcmp(method, "tools/call") != 0 && fold_is_same(method, "tools/call");
}

static void take_message(struct call_reader *r, const json_t *v)
{
	static const char *const names[] = {"jsonrpc", "id", "method", "params", NULL};
	struct call_message *m = &r->call.messages[r->call.message_count++];
	const json_t *method = json_object_get(v, "method");

	if (json_is_object(v) && replaces_method(v)) {
		refuse(r, CALL_OVERRIDES);
		return;
	}
	m->method = json_string_value(method);
	if (!json_is_object(v) || (method && !m->method) || has_odd_member(v, names) ||
		(m->method && is_odd_call(m->method))) {
		refuse(r, "it is no message of MCP");
		return;
	}
	m->id = json_object_get(v, "id");
	if (m->method && strcmp(m->method, "tools/call") == 0)
		take_call(r, json_object_get(v, "params"), m);
}

static void take_messages(struct call_reader *r, const json_t *v)
{
	size_t count = json_is_array(v) ? json_array_size(v) : 1;

	r->call.batch = json_is_array(v);
	if (count == 0 || count > CALL_MESSAGES_MAX) {
		refuse(r, "it has no message, or more than 64");
		return;
	}
	r->call.messages = calloc(count, sizeof(r->call.messages[0]));
	if (!r->call.messages) {
		refuse(r, "out of memory");
		return;
	}
	for (size_t i = 0; i < count && !r->call.unclear_mcp; i++)
		take_message(r, r->call.batch ? json_array_get(v, i) : v);
}

void call_mcp_end(struct call_reader *r)
{
	static const char begin[] = "{\"m\":", end[] = "}";
	struct buf whole = BUF_INIT(CALL_BODY_MAX + 16);
	const char *why = "out of memory";

	if (buf_add_str(&whole, begin) == 0 &&
		buf_add(&whole, buf_head(&r->body), buf_len(&r->body)) == 0 &&
		buf_add_str(&whole, end) == 0)
		r->call.tree = json_tree_parse(buf_head(&whole), buf_len(&whole),
			JSON_TREE_UNIQUE | JSON_TREE_NO_NUL, &why);
	buf_done(&whole);
	if (r->call.tree && json_object_size(r->call.tree) == 1)
		take_messages(r, json_object_get(r->call.tree, "m"));
	else
		refuse(r, r->call.tree ? "it is no message of MCP" : why);
}

bool call_is_session(const char *method)
{
	static const char *const methods[] = {
		"initialize", "ping", "tools/list", "logging/setLevel", NULL};

	for (const char *const *m = methods; method && *m; m++)
		if (strcmp(method, *m) == 0)
			return true;
	return !method || str_starts_with(method, "notifications/");
}
