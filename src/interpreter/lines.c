#include "interpreter/lines.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proto/json_text.h"
#include "proto/timestamp.h"

static int add_string(struct buf *out, const char *s, size_t n)
{
	return json_text_string(out, s, n, JSON_TEXT_ASCII);
}

static int add_json(const char *data, size_t n, void *out)
{
	return buf_add(out, data, n);
}

static int add_value(struct buf *out, const json_t *v)
{
	if (json_is_string(v))
		return add_string(out, json_string_value(v), json_string_length(v));
	return json_dump_callback(
		v, add_json, out, JSON_ENSURE_ASCII | JSON_COMPACT | JSON_ENCODE_ANY);
}

int lines_add_count(struct buf *out, json_int_t count)
{
	return buf_printf(out,
		"{\"type\":\"number_of_executions\",\"execution_count\":%" JSON_INTEGER_FORMAT
		"}\n",
		count);
}

int lines_add_type(struct buf *out, const char *type)
{
	return buf_printf(out, "{\"type\":\"%s\"}\n", type);
}

int lines_add_text(struct buf *out, const char *type, const char *text, size_t n)
{
	char now[TIMESTAMP_BYTES];
	int r = buf_printf(out, "{\"type\":\"%s\",\"text\":", type);

	if (r == 0)
		r = add_string(out, text, n);
	if (r == 0)
		r = buf_printf(out, ",\"timestamp\":\"%s\"}\n",
			timestamp_format_ns(clock_realtime_ns(), now));
	return r;
}

/* --- errors --- */

static int add_member(struct buf *out, const char *name, const char *s, size_t n)
{
	int r = buf_printf(out, ",\"%s\":", name);

	return r == 0 ? add_string(out, s, n) : r;
}

int lines_add_error(struct buf *out, const char *name, const char *value, const char *traceback)
{
	int r = buf_add_str(out, "{\"type\":\"error\"");

	if (r == 0)
		r = add_member(out, "name", name, strlen(name));
	if (r == 0)
		r = add_member(out, "value", value, strlen(value));
	if (r == 0)
		r = add_member(out, "traceback", traceback, strlen(traceback));
	return r == 0 ? buf_add_str(out, "}\n") : r;
}

static int add_text_member(struct buf *out, const char *name, const json_t *v)
{
	return json_is_string(v)
		       ? add_member(out, name, json_string_value(v), json_string_length(v))
		       : add_member(out, name, "", 0);
}

/* Joins Jupyter's list of lines to one text. */
static int add_traceback(struct buf *out, const json_t *lines)
{
	int r = buf_add_str(out, ",\"traceback\":\"");
	json_t *v;
	size_t i;

	json_array_foreach(lines, i, v)
	{
		if (r == 0 && i)
			r = buf_add_str(out, "\\n");
		if (r == 0 && json_is_string(v))
			r = json_text_escape(
				out, json_string_value(v), json_string_length(v), JSON_TEXT_ASCII);
	}
	return r == 0 ? buf_add_str(out, "\"}\n") : r;
}

int lines_add_kernel_error(struct buf *out, const json_t *content)
{
	int r = buf_add_str(out, "{\"type\":\"error\"");

	if (r == 0)
		r = add_text_member(out, "name", json_object_get(content, "ename"));
	if (r == 0)
		r = add_text_member(out, "value", json_object_get(content, "evalue"));
	return r == 0 ? add_traceback(out, json_object_get(content, "traceback")) : r;
}

/* --- results --- */

enum kind { KIND_ANY, KIND_QUOTED, KIND_BASE64 };

static const struct known {
	const char *mime, *key;
	enum kind kind;
} known[] = {
	{"text/plain", "text", KIND_QUOTED},
	{"text/html", "html", KIND_ANY},
	{"text/markdown", "markdown", KIND_ANY},
	{"image/svg+xml", "svg", KIND_ANY},
	{"image/png", "png", KIND_BASE64},
	{"image/jpeg", "jpeg", KIND_BASE64},
	{"application/pdf", "pdf", KIND_BASE64},
	{"text/latex", "latex", KIND_ANY},
	{"application/json", "json", KIND_ANY},
	{"application/javascript", "javascript", KIND_ANY},
	{"e2b/data", "data", KIND_ANY},
	{"e2b/chart", "chart", KIND_ANY},
};

static const struct known *find(const char *mime)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].mime, mime) == 0)
			return &known[i];
	return NULL;
}

static int add_known(struct buf *out, const struct known *k, const json_t *v)
{
	const char *s = json_string_value(v);
	size_t n = s ? json_string_length(v) : 0;

	if (!s || k->kind == KIND_ANY)
		return add_value(out, v);
	if (k->kind == KIND_QUOTED && n >= 2 && (*s == '\'' || *s == '"') && s[n - 1] == *s)
		return add_string(out, s + 1, n - 2);
	while (k->kind == KIND_BASE64 && n && strchr("\r\n ", s[n - 1]))
		n--; /* base64 of IPython.display.Image ends in a newline */
	return add_string(out, s, n);
}

static int add_extra(struct buf *out, const json_t *data)
{
	const char *mime, *before = ",\"extra\":{";
	json_t *v;
	int r = 0;

	json_object_foreach((json_t *)(uintptr_t)data, mime, v)
	{
		if (find(mime) || r < 0)
			continue;
		r = buf_add_str(out, before);
		if (r == 0)
			r = add_string(out, mime, strlen(mime));
		if (r == 0)
			r = buf_add_str(out, ":");
		if (r == 0)
			r = add_value(out, v);
		before = ",";
	}
	if (r == 0 && *(before + 1))
		return 0; /* there was none */
	return r == 0 ? buf_add_str(out, "}") : r;
}

int lines_add_result(struct buf *out, const json_t *data, bool is_main)
{
	int r = buf_add_str(out, "{\"type\":\"result\"");

	for (size_t i = 0; i < ARRAY_SIZE(known) && r == 0; i++) {
		const json_t *v = json_object_get(data, known[i].mime);

		if (!v || json_is_null(v))
			continue;
		r = buf_printf(out, ",\"%s\":", known[i].key);
		if (r == 0)
			r = add_known(out, &known[i], v);
	}
	if (r == 0)
		r = add_extra(out, data);
	if (r == 0)
		r = buf_printf(out, ",\"is_main_result\":%s}\n", is_main ? "true" : "false");
	return r;
}
