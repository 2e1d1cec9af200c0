#include "daemon/cell_output.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

/* The longest escape: a surrogate pair. */
enum { ESCAPE_MAX = 12, UNIT = ESCAPE_MAX / 2, ERROR_TEXT_MAX = 64 * 1024 };

void cell_output_init(struct cell_output *o, size_t limit)
{
	*o = (struct cell_output){.left = limit, .results = json_array()};
	buf_init(&o->line, limit + CELL_LINE_EXTRA);
	buf_init(&o->out, limit);
	buf_init(&o->err, limit);
}

void cell_output_done(struct cell_output *o)
{
	buf_done(&o->line);
	buf_done(&o->out);
	buf_done(&o->err);
	json_decref(o->results);
	json_decref(o->error);
	o->results = o->error = NULL;
}

/* As much of n bytes of UTF-8 as fits, whole characters. */
static size_t cut(const char *text, size_t n, size_t room)
{
	if (n <= room)
		return n;
	while (room && ((unsigned char)text[room] & 0xc0) == 0x80)
		room--;
	return room;
}

static int take_text(struct cell_output *o, struct buf *to, bool *ret_cut, const json_t *text)
{
	size_t n = json_string_length(text), fits;

	if (!json_is_string(text))
		return 0;
	fits = cut(json_string_value(text), n, o->left);
	*ret_cut = *ret_cut || fits < n;
	o->left = fits < n ? 0 : o->left - fits; /* nothing small slips in behind a gap */
	return buf_add(to, json_string_value(text), fits) < 0 ? -ENOMEM : 0;
}

static int take_result(struct cell_output *o, json_t *result, size_t n)
{
	(void)json_object_del(result, "type"); /* is there */
	if (n > o->left) {
		o->results_cut = true;
		return 0;
	}
	o->left -= n;
	return json_array_append(o->results, result) < 0 ? -ENOMEM : 0;
}

/* A member that is a text, cut: exceptions are told whatever has been said before. */
static json_t *error_text(const json_t *error, const char *key)
{
	const json_t *v = json_object_get(error, key);
	size_t n = json_string_length(v);

	return json_is_string(v) ? json_stringn(json_string_value(v),
					   cut(json_string_value(v), n, ERROR_TEXT_MAX))
				 : json_string("");
}

static int take_error(struct cell_output *o, const json_t *error)
{
	if (o->error)
		return 0;
	o->error = json_pack("{s:o, s:o, s:o}", "name", error_text(error, "name"), "value",
		error_text(error, "value"), "traceback", error_text(error, "traceback"));
	return o->error ? 0 : -ENOMEM;
}

static int take_object(struct cell_output *o, json_t *item, size_t n)
{
	const char *type = json_string_value(json_object_get(item, "type"));

	if (!type)
		return 0;
	if (strcmp(type, "stdout") == 0)
		return take_text(o, &o->out, &o->out_cut, json_object_get(item, "text"));
	if (strcmp(type, "stderr") == 0)
		return take_text(o, &o->err, &o->err_cut, json_object_get(item, "text"));
	if (strcmp(type, "result") == 0)
		return take_result(o, item, n);
	if (strcmp(type, "error") == 0)
		return take_error(o, item);
	if (strcmp(type, "number_of_executions") == 0)
		o->count = json_integer_value(json_object_get(item, "execution_count"));
	o->ended = o->ended || strcmp(type, "end_of_execution") == 0;
	return 0;
}

static json_t *parse(const void *data, size_t n)
{
	return json_loadb(data, n, JSON_ALLOW_NUL, NULL);
}

static int take_line(struct cell_output *o)
{
	json_t *item = parse(buf_head(&o->line), buf_len(&o->line));
	int r = take_object(o, item, buf_len(&o->line));

	json_decref(item);
	buf_clear(&o->line);
	return r;
}

/* --- lines that are too long --- */

static bool begins(const struct cell_output *o, const char *text)
{
	return buf_len(&o->line) > strlen(text) &&
	       memcmp(buf_head(&o->line), text, strlen(text)) == 0;
}

/* How much of n bytes of an escaped text is whole: without an escape at its end, which may have
 * been cut in two, or the first half of a surrogate pair. n is more than ESCAPE_MAX. */
static size_t whole_escapes(const uint8_t *head, size_t n)
{
	size_t at = n;

	while (at > n - UNIT && head[at - 1] != '\\')
		at--;
	if (at > n - UNIT)
		n = at - 1;
	while (n > ESCAPE_MAX && head[n - 1] == '\\') /* of two, too */
		n--;
	return n > ESCAPE_MAX && memcmp(head + n - UNIT, "\\ud", 3) == 0 ? n - UNIT : n;
}

/* The text that is there of a line that was cut anywhere: its end is made good. */
static int take_beginning(struct cell_output *o)
{
	static const char end[] = "\"}";
	_cleanup_(buf_done) struct buf whole = BUF_INIT(buf_len(&o->line) + sizeof(end));
	const uint8_t *head = buf_head(&o->line);
	size_t n = whole_escapes(head, buf_len(&o->line));
	json_t *item;
	int r;

	r = buf_add(&whole, head, n);
	if (r == 0)
		r = buf_add_str(&whole, end);
	if (r < 0)
		return -ENOMEM;
	item = parse(buf_head(&whole), buf_len(&whole));
	r = take_object(o, item, n);
	json_decref(item);
	return r;
}

static int overflow(struct cell_output *o)
{
	int r = 0;

	if (begins(o, "{\"type\":\"stdout\",\"text\":\"")) {
		r = take_beginning(o);
		o->out_cut = true;
		o->left = 0;
	} else if (begins(o, "{\"type\":\"stderr\",\"text\":\"")) {
		r = take_beginning(o);
		o->err_cut = true;
		o->left = 0;
	} else if (begins(o, "{\"type\":\"result\"")) {
		o->results_cut = true;
	}
	buf_clear(&o->line);
	o->skipping = true;
	return r;
}

static int keep(struct cell_output *o, const uint8_t *data, size_t n)
{
	size_t room = o->line.max - buf_len(&o->line);
	int r;

	if (o->skipping || !n)
		return 0;
	r = buf_add(&o->line, data, n < room ? n : room);
	if (r < 0)
		return -ENOMEM;
	return n > room ? overflow(o) : 0;
}

int cell_output_take(struct cell_output *o, const uint8_t *data, size_t n)
{
	int r = o->results ? 0 : -ENOMEM;

	while (n && r == 0 && !o->ended) {
		const uint8_t *end = memchr(data, '\n', n);
		size_t part = end ? (size_t)(end - data) : n;

		r = keep(o, data, part);
		if (end && r == 0 && !o->skipping && buf_len(&o->line))
			r = take_line(o);
		if (end) {
			o->skipping = false;
			part++;
		}
		data += part;
		n -= part;
	}
	return r;
}

/* --- the answer --- */

static json_t *text_json(const struct buf *b)
{
	return buf_len(b) ? json_stringn((const char *)buf_head(b), buf_len(b)) : json_string("");
}

json_t *cell_output_json(const struct cell_output *o)
{
	return json_pack("{s:o, s:o, s:O, s:O?, s:I, s:{s:b, s:b, s:b}}", "stdout",
		text_json(&o->out), "stderr", text_json(&o->err), "results", o->results, "error",
		o->error, "executionCount", o->count, "truncated", "stdout", o->out_cut, "stderr",
		o->err_cut, "results", o->results_cut);
}
