/* Answers to tools/list of MCP, of which some tools are left out (tool_list.h): those of requests
 * whose body asks for a list, and streams of events that come for a GET, in which such an answer
 * may be. Whatever else it is passes as it came. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "intercept/exchange_internal.h"
#include "intercept/tool_list.h"
#include "rules/path.h"

struct exchange_tools {
	struct exchange *x;
	char *path;
	bool asked;		/* for a list: by the body */
	struct tool_list *list; /* of the answer; NULL: it is not looked at */
};

static bool asks_for_list(const struct call *call)
{
	for (unsigned i = 0; i < call->message_count; i++) {
		const char *method = call->messages[i].method;

		if (method && strcmp(method, "tools/list") == 0)
			return true;
	}
	return false;
}

/* Without its query. A path that is too long for rules is cut, and stays too long. */
static char *copy_path(const char *path)
{
	size_t n = strcspn(path, "?");

	return strndup(path, n < RULES_PATH_MAX ? n : RULES_PATH_MAX + 1);
}

int exchange_tools_begin(struct exchange *x, struct exchange_request_state *q, const char *path,
	const struct call *call)
{
	struct exchange_tools *t;

	if (!x->callbacks.shows || q->tools || (call && !asks_for_list(call)))
		return 0;
	q->tools = t = calloc(1, sizeof(*t));
	if (t) {
		*t = (struct exchange_tools){.x = x, .path = copy_path(path), .asked = call};
		if (t->path)
			return 0;
	}
	exchange_request_fail(q, 502, "denied", "out of memory");
	return -EINVAL;
}

static bool shown(void *arg, const char *name)
{
	const struct exchange_tools *t = arg;

	return t->x->callbacks.shows(t->x->callbacks.arg, t->path, name);
}

static bool is_type(const char *type, const char *want)
{
	size_t n = strlen(want);

	return type && strncasecmp(type, want, n) == 0 && strchr(" \t;", type[n]);
}

const char *exchange_tools_begin_answer(struct exchange_request_state *q, unsigned status,
	const struct http_headers *headers, bool body)
{
	struct exchange_tools *t = q->tools;
	const char *type = http_header_get(headers, "content-type");
	struct tool_list_options o = {.events = is_type(type, "text/event-stream"), .shown = shown};

	if (!t || !body)
		return NULL;
	if (!o.events && !(t->asked && is_type(type, "application/json")))
		return t->asked && status < 300
			       ? "its list of tools is neither JSON nor a stream of events"
			       : NULL;
	if (http_header_count(headers, "content-type") > 1 || rewrite_is_coded(headers))
		return "the server compresses its list of tools although it was asked not to, or "
		       "has two types for it";
	o.arg = t;
	o.held = &t->x->tools_held;
	t->list = tool_list_new(&o);
	return t->list ? NULL : "out of memory";
}

bool exchange_tools_change(const struct exchange_request_state *q)
{
	return q->tools && q->tools->list;
}

size_t exchange_tools_waiting(const struct exchange_request_state *q)
{
	return q->tools ? tool_list_waiting(q->tools->list) : 0;
}

size_t exchange_tools_memory(const struct exchange_request_state *q)
{
	return q->tools ? sizeof(*q->tools) + strlen(q->tools->path) + 1 : 0;
}

void exchange_tools_free(struct exchange_request_state *q)
{
	if (!q->tools)
		return;
	tool_list_free(q->tools->list);
	free(q->tools->path);
	free(q->tools);
	q->tools = NULL;
}

int exchange_answer_bytes(
	struct exchange_request_state *q, const uint8_t *data, size_t n, struct buf *out)
{
	struct buf rest;
	int r;

	if (!exchange_tools_change(q))
		return scrub_bytes(&q->scrub, data, n, out);
	buf_init_secret(&rest, n + TOOL_LIST_TOOL_MAX);
	r = tool_list_bytes(q->tools->list, data, n, &rest);
	r = r ? r : scrub_bytes(&q->scrub, buf_head(&rest), buf_len(&rest), out);
	buf_done(&rest);
	return r;
}
