#include "api/code/cell_output.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "proto/json_scan.h"
#include "proto/json_text.h"

enum { ERROR_TEXT_MAX = 64 * 1024 };

void cell_output_init(struct cell_output *o, size_t limit)
{
	*o = (struct cell_output){.left = limit};
	buf_init(&o->line, limit + CELL_LINE_EXTRA);
	buf_init(&o->out, limit);
	buf_init(&o->err, limit);
	buf_init(&o->results, limit);
}

void cell_output_done(struct cell_output *o)
{
	buf_done(&o->line);
	buf_done(&o->out);
	buf_done(&o->err);
	buf_done(&o->results);
	json_decref(o->error);
	o->error = NULL;
}

/* --- a line --- */

enum field {
	FIELD_TYPE,
	FIELD_TEXT,
	FIELD_NAME,
	FIELD_VALUE,
	FIELD_TRACEBACK,
	FIELD_COUNT,
	FIELDS
};

static const char *const fields[FIELDS] = {
	"\"type\"", "\"text\"", "\"name\"", "\"value\"", "\"traceback\"", "\"execution_count\""};

static bool is(struct json_slice s, const char *text)
{
	return s.len == strlen(text) && memcmp(s.text, text, s.len) == 0;
}

/* Finds the fields' values as written; a missing one gets length 0. Returns false if it is no valid
 * line. */
static bool read_fields(const void *line, size_t n, struct json_slice ret[FIELDS])
{
	struct json_members members = json_members_of(line, n);
	struct json_member m;
	int r;

	while ((r = json_members_next(&members, &m)) > 0)
		for (size_t i = 0; i < FIELDS; i++)
			if (is(m.key, fields[i]))
				ret[i] = m.value;
	return r == 0;
}

/* A string or number of a line; NULL if it is missing or of another type. */
static json_t *scalar(struct json_slice s)
{
	if (!s.len || *s.text == '{' || *s.text == '[')
		return NULL;
	return json_loadb(s.text, s.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

static int take_text(struct cell_output *o, struct buf *to, bool *ret_cut, struct json_slice field)
{
	json_t *text = scalar(field);
	size_t n = json_string_length(text), fits;
	int r = 0;

	if (json_is_string(text)) {
		fits = str_cut(json_string_value(text), n, o->left);
		*ret_cut = *ret_cut || fits < n;
		o->left = fits < n ? 0 : o->left - fits; /* nothing follows a cut */
		r = buf_add(to, json_string_value(text), fits);
	}
	json_decref(text);
	return r < 0 ? -ENOMEM : 0;
}

/* Appends all members but the type, as written: shorter than the line, so they fit. */
static int add_result(struct buf *to, const void *line, size_t n)
{
	struct json_members members = json_members_of(line, n);
	const char *before = buf_len(to) ? ",{" : "{";
	struct json_member m;
	int r = buf_add_str(to, before);

	before = "";
	while (r == 0 && json_members_next(&members, &m) > 0) {
		if (is(m.key, fields[FIELD_TYPE]))
			continue;
		r = buf_add_str(to, before);
		if (r == 0)
			r = buf_add(to, m.whole.text, m.whole.len);
		before = ",";
	}
	return r == 0 ? buf_add_str(to, "}") : r;
}

static int take_result(struct cell_output *o, const void *line, size_t n)
{
	if (n > o->left) {
		o->results_cut = true;
		return 0;
	}
	o->left -= n;
	return add_result(&o->results, line, n) < 0 ? -ENOMEM : 0;
}

/* A text of an exception, cut to its own limit: exceptions are reported however much output came
 * first. */
static json_t *error_text(struct json_slice field)
{
	json_t *v = scalar(field), *text;
	size_t n = json_string_length(v);

	text = json_is_string(v) ? json_stringn(json_string_value(v),
					   str_cut(json_string_value(v), n, ERROR_TEXT_MAX))
				 : json_string("");
	json_decref(v);
	return text;
}

static int take_error(struct cell_output *o, const struct json_slice field[FIELDS])
{
	if (o->error)
		return 0;
	o->error = json_pack("{s:o, s:o, s:o}", "name", error_text(field[FIELD_NAME]), "value",
		error_text(field[FIELD_VALUE]), "traceback", error_text(field[FIELD_TRACEBACK]));
	return o->error ? 0 : -ENOMEM;
}

static void take_count(struct cell_output *o, struct json_slice field)
{
	json_t *count = scalar(field);

	o->count = json_integer_value(count);
	json_decref(count);
}

static int take_line(struct cell_output *o, const void *line, size_t n)
{
	struct json_slice field[FIELDS] = {0}, type;

	if (!read_fields(line, n, field))
		return 0;
	type = field[FIELD_TYPE];
	if (is(type, "\"stdout\""))
		return take_text(o, &o->out, &o->out_cut, field[FIELD_TEXT]);
	if (is(type, "\"stderr\""))
		return take_text(o, &o->err, &o->err_cut, field[FIELD_TEXT]);
	if (is(type, "\"result\""))
		return take_result(o, line, n);
	if (is(type, "\"error\""))
		return take_error(o, field);
	if (is(type, "\"number_of_executions\""))
		take_count(o, field[FIELD_COUNT]);
	o->ended = o->ended || is(type, "\"end_of_execution\"");
	return 0;
}

/*--- lines that are too long ---
 *
 * Escaped text may be six times as long as decoded text. So a line may exceed its buffer and still
 * be within the limit. A stream's line is then split into several with the same beginning. */

/* The written length of the character at s. It exceeds n if the character is incomplete. An invalid
 * one may get any length, since jansson refuses it. */
static size_t written_len(const char *s, size_t n)
{
	unsigned char c = (unsigned char)*s;

	if (c != '\\')
		return c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	if (n < 2 || s[1] != 'u')
		return 2;
	return n >= 4 && (s[2] | 0x20) == 'd' && strchr("89abAB", s[3]) ? 12 : 6; /* a pair */
}

/* The length of the whole characters, as written, in n bytes of text before its end. */
static size_t whole_text(const char *s, size_t n)
{
	size_t at = 0, len;

	for (; at < n && s[at] != '"'; at += len) {
		len = written_len(s + at, n - at);
		if (len > n - at)
			break;
	}
	return at;
}

/* Takes as much of the line's text as is there, from `front` bytes on. The rest stays as a line
 * with the same beginning. The last byte always belongs to the rest, to leave room for a quote. */
static int take_part(struct cell_output *o, size_t front, struct buf *to, bool *ret_cut)
{
	char *head = (char *)o->line.data + o->line.start;
	size_t at = front + whole_text(head + front, buf_len(&o->line) - 1 - front);
	size_t before = buf_len(to);
	char behind = head[at];
	int r;

	head[at] = '"';
	r = take_text(o, to, ret_cut,
		(struct json_slice){.text = head + front - 1, .len = at + 1 - (front - 1)});
	head[at] = behind;
	/* no progress: the text is beyond the limit, or invalid */
	o->skipping = behind == '"' || buf_len(to) == before;
	memmove(head + at - front, head, front);
	buf_consume(&o->line, at - front);
	return r;
}

static bool begins(const struct cell_output *o, const char *text)
{
	return buf_len(&o->line) > strlen(text) &&
	       memcmp(buf_head(&o->line), text, strlen(text)) == 0;
}

/* Called when the line has filled its buffer and goes on. */
static int make_room(struct cell_output *o)
{
	static const char out[] = "{\"type\":\"stdout\",\"text\":\"",
			  err[] = "{\"type\":\"stderr\",\"text\":\"";
	int r = 0;

	o->skipping = true;
	if (begins(o, out))
		r = take_part(o, strlen(out), &o->out, &o->out_cut);
	else if (begins(o, err))
		r = take_part(o, strlen(err), &o->err, &o->err_cut);
	else if (begins(o, "{\"type\":\"result\""))
		o->results_cut = true;
	if (o->skipping)
		buf_clear(&o->line);
	return r;
}

static int keep(struct cell_output *o, const uint8_t *data, size_t n)
{
	int r = 0;

	while (n && r == 0 && !o->skipping) {
		size_t room = o->line.max - buf_len(&o->line), part = n < room ? n : room;

		if (buf_add(&o->line, data, part) < 0)
			return -ENOMEM;
		data += part;
		n -= part;
		if (n)
			r = make_room(o);
	}
	return r;
}

int cell_output_take(struct cell_output *o, const uint8_t *data, size_t n)
{
	int r = 0;

	while (n && r == 0 && !o->ended) {
		const uint8_t *end = memchr(data, '\n', n);
		size_t part = end ? (size_t)(end - data) : n;

		r = keep(o, data, part);
		if (end && r == 0 && !o->skipping && buf_len(&o->line)) {
			r = take_line(o, buf_head(&o->line), buf_len(&o->line));
			buf_clear(&o->line);
		}
		if (end) {
			o->skipping = false;
			part++;
		}
		data += part;
		n -= part;
	}
	return r;
}

size_t cell_output_bytes(const struct cell_output *o)
{
	return o->line.capacity + o->out.capacity + o->err.capacity + o->results.capacity;
}

/* --- the answer --- */

static int add_text(struct buf *out, const char *before, const struct buf *text)
{
	size_t n = buf_len(text);
	int r = buf_add_str(out, before);

	if (r == 0)
		r = json_text_string(out, n ? (const char *)buf_head(text) : "", n, JSON_TEXT_UTF8);
	return r;
}

static int add_results(struct buf *out, const struct buf *results)
{
	int r = buf_add_str(out, ",\"results\":[");

	if (r == 0 && buf_len(results))
		r = buf_add(out, buf_head(results), buf_len(results));
	return r == 0 ? buf_add_str(out, "],") : r;
}

static int add_piece(const char *piece, size_t n, void *out)
{
	return buf_add(out, piece, n);
}

/* Everything but the error is small. */
static int add_rest(struct buf *out, const struct cell_output *o, json_t *more)
{
	json_t *rest = json_pack("{s:O?, s:I, s:{s:b, s:b, s:b}}", "error", o->error,
		"executionCount", o->count, "truncated", "stdout", o->out_cut, "stderr", o->err_cut,
		"results", o->results_cut);
	int r = rest && more && json_object_update(rest, more) == 0 ? 0 : -ENOMEM;

	if (r == 0 && json_dump_callback(rest, add_piece, out, JSON_COMPACT | JSON_EMBED) < 0)
		r = -ENOMEM;
	json_decref(rest);
	return r == 0 ? buf_add_u8(out, '}') : r;
}

int cell_output_answer(const struct cell_output *o, json_t *more, struct buf *out)
{
	int r = add_text(out, "{\"stdout\":", &o->out);

	if (r == 0)
		r = add_text(out, ",\"stderr\":", &o->err);
	if (r == 0)
		r = add_results(out, &o->results);
	return r == 0 ? add_rest(out, o, more) : r;
}
