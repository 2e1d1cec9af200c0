#include "rules/call.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "proto/http_headers.h"
#include "rules/call_internal.h"
#include "rules/form.h"

/* --- paths --- */

/* Where some servers end a path: before an encoded '?' or '#'. */
static size_t length(const char *path)
{
	const char *query = strstr(path, "%3F"), *fragment = strstr(path, "%23");
	const char *end = query && (!fragment || query < fragment) ? query : fragment;

	return end ? (size_t)(end - path) : strlen(path);
}

/* Whether a path ends with this text. Ignores case, and slashes, blanks and dots at the end. */
static bool ends_in(const char *path, const char *end)
{
	size_t n = length(path), e = strlen(end);

	while (n > 1 && strchr("/ .", path[n - 1]))
		n--;
	return n >= e && strncasecmp(path + n - e, end, e) == 0;
}

unsigned call_api_of_path(const char *path)
{
	static const struct {
		const char *end;
		unsigned api;
	} ends[] = {
		{"/v1/messages", CALL_ANTHROPIC},
		{"/chat/completions", CALL_OPENAI},
		{"/responses", CALL_OPENAI},
		{":generateContent", CALL_GOOGLE},
		{":streamGenerateContent", CALL_GOOGLE},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends_in(path, ends[i].end))
			return ends[i].api;
	return 0;
}

const char *call_api_word(unsigned api)
{
	switch (api) {
	case CALL_ANTHROPIC:
		return "anthropic";
	case CALL_OPENAI:
		return "openai";
	case CALL_GOOGLE:
		return "google";
	default:
		return "mcp";
	}
}

static void take_path_model(struct call_reader *r, const char *text, size_t n)
{
	if (n > CALL_MODEL_MAX) {
		call_unclear(r, "its model's name is too long");
		return;
	}
	for (size_t i = 0; i < n; i++)
		r->path_model[i] = (char)tolower((unsigned char)text[i]);
}

static void take_model_of_path(struct call_reader *r, const char *path)
{
	static const char deployments[] = "/deployments/";
	const char *colon = strrchr(path, ':'), *at;

	if (r->call.apis & CALL_GOOGLE && colon) {
		at = memrchr(path, '/', (size_t)(colon - path));
		if (at)
			take_path_model(r, at + 1, (size_t)(colon - at - 1));
	} else if (r->call.apis & CALL_OPENAI) {
		at = strcasestr(path, deployments);
		if (at)
			take_path_model(r, at + sizeof(deployments) - 1,
				strcspn(at + sizeof(deployments) - 1, "/"));
	}
}

/* --- headers --- */

static bool is_json(const char *type)
{
	static const char json[] = "application/json";
	size_t n = sizeof(json) - 1;

	if (strncasecmp(type, json, n) != 0)
		return false;
	type += n + strspn(type + n, " \t");
	if (*type == '\0')
		return true;
	if (*type++ != ';')
		return false;
	type += strspn(type, " \t");
	return strcasecmp(type, "charset=utf-8") == 0 || strcasecmp(type, "charset=\"utf-8\"") == 0;
}

static void check_headers(struct call_reader *r, const struct http_headers *h)
{
	const char *type = http_header_get(h, "content-type");
	const char *coding = http_header_get(h, "content-encoding");

	if (coding && strcasecmp(coding, "identity") != 0)
		call_unclear(r, "its body is compressed");
	else if (http_header_count(h, "content-encoding") > 1 ||
		 http_header_count(h, "content-type") > 1)
		call_unclear(r, "a header of its body stands twice");
	else if (!type || !is_json(type))
		call_unclear(r, "its body is not application/json in UTF-8");
}

/* --- life --- */

struct call_reader *call_reader_new(
	unsigned apis, const char *path, const struct http_headers *headers)
{
	struct call_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->call.apis = apis;
	buf_init(&r->body, CALL_BODY_MAX + 16); /* what call_mcp.c puts around it */
	json_stream_begin(&r->stream, call_model_token, r);
	if (headers && apis & ~CALL_FORM)
		check_headers(r, headers);
	r->call.two_methods = apis & CALL_FORM && form_is_hidden(headers);
	r->parts = form_has_parts(headers, NULL, 0);
	if (path)
		take_model_of_path(r, path);
	return r;
}

static void free_names(struct call_names *n)
{
	for (unsigned i = 0; i < n->count; i++)
		free(n->names[i]);
	free(n->names);
}

void call_reader_free(struct call_reader *r)
{
	if (!r)
		return;
	free_names(&r->call.tools);
	free_names(&r->call.server_tools);
	free(r->call.messages);
	json_decref(r->call.tree);
	buf_done(&r->body);
	free(r);
}

/* --- what it says --- */

void call_unclear(struct call_reader *r, const char *why)
{
	if (!r->call.unclear)
		r->call.unclear = why;
}

void call_add_name(struct call_reader *r, struct call_names *names, const char *name)
{
	char **grown;

	for (unsigned i = 0; i < names->count; i++)
		if (strcmp(names->names[i], name) == 0)
			return;
	if (r->first_names && names->count == r->first_names)
		return;
	if (names->count == CALL_TOOLS_MAX) {
		call_unclear(r, "it has too many tools");
		return;
	}
	grown = array_grow(names->names, names->count, sizeof(grown[0]));
	if (grown) {
		names->names = grown;
		grown[names->count] = strdup(name);
	}
	if (grown && grown[names->count])
		names->count++;
	else
		call_unclear(r, "out of memory");
}

void call_reader_keep_first(struct call_reader *r, unsigned max)
{
	r->first_names = max;
}

/* Whether more of the body says more. */
static bool reads_on(const struct call_reader *r)
{
	return (r->call.apis & ~CALL_FORM && !r->call.unclear) ||
	       (r->call.apis & CALL_FORM && !r->call.two_methods);
}

static void give_up(struct call_reader *r, const char *why)
{
	call_unclear(r, why);
	r->call.two_methods = r->call.apis & CALL_FORM;
}

bool call_reader_feed(struct call_reader *r, const void *data, size_t n)
{
	r->any = r->any || n;
	r->bytes += n;
	if (r->bytes > CALL_BODY_MAX)
		give_up(r, "its body is larger than 4 MiB");
	if (!reads_on(r))
		return false;
	if (r->call.apis & CALL_MODELS && !r->call.unclear &&
		!json_stream_feed(&r->stream, data, n))
		call_unclear(r, r->stream.wrong);
	if (r->call.apis & (CALL_MCP | CALL_FORM) && buf_add(&r->body, data, n) < 0)
		give_up(r, "out of memory");
	return reads_on(r);
}

static void end_form(struct call_reader *r)
{
	const void *body = buf_head(&r->body);
	size_t n = buf_len(&r->body);

	r->call.two_methods = form_has_method(body, n);
	if (r->parts || form_has_parts(NULL, body, n))
		return;
	r->call.form = n ? body : "";
	r->call.form_bytes = n;
}

const struct call *call_reader_end(struct call_reader *r)
{
	if (!r->any)
		call_unclear(r, "it has no body");
	if (!r->call.unclear && r->call.apis & CALL_MODELS)
		call_model_end(r);
	if (!r->call.unclear && r->call.apis & CALL_MCP)
		call_mcp_end(r);
	if (r->call.apis & CALL_FORM && !r->call.two_methods)
		end_form(r);
	if (!r->call.form)
		buf_done(&r->body);
	return &r->call;
}
