/* A message is {"result": {"tools": [{"name": ...}, ...]}}, and each byte of it is shown to a
 * reader of JSON: what the reader tells of it says where in the message it stands. */
#include "intercept/tool_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_stream.h"
#include "rules/call.h"

/* A line of an event.
 *
 *	FIELD	the name of its field, before a colon
 *	SPACE	"data:" was read, and a space may follow
 *	DATA	its text
 *	OTHER	it is of another field, and passes */
enum line { FIELD, SPACE, DATA, OTHER };

/* What the data of an event is: known from its first byte. */
enum data { NO_DATA, JSON, TEXT };

enum { FIELD_MAX = 5 /* one more than "data" has */, BOM_BYTES = 3 };

/* Depths of tokens in a message that is no part of a batch (json_stream.h). */
enum { MEMBER = 1, RESULT_MEMBER = 2, TOOL = 3, TOOL_MEMBER = 4 };

struct tool_list {
	struct tool_list_options o;
	struct buf *out; /* of the call */
	int err;
	struct json_stream json;
	unsigned batch;			      /* 1: the messages stand in an array */
	bool result_key, tools_key, name_key; /* the last key was this one */
	bool result, tools;		      /* within these */
	bool tool, tool_ends;		      /* within an object of `tools`; at its last byte */
	bool shown_one;			      /* of this array: a comma comes before the next */
	struct buf held;		      /* the tool */
	bool dropped, named;
	char name[CALL_NAME_MAX + 1];
	/* Of events. */
	enum line line;
	enum data data;
	char field[FIELD_MAX];
	unsigned field_bytes, bom_bytes;
	bool line_open, after_cr;
	bool joint; /* a line of the message has ended */
};

static void put(struct tool_list *l, const void *data, size_t n)
{
	if (!l->err)
		l->err = buf_add(l->out, data, n);
}

/* --- what waits --- */

static void drop_held(struct tool_list *l)
{
	*l->o.held -= buf_len(&l->held);
	buf_done(&l->held);
	l->dropped = true;
}

static void hold(struct tool_list *l, uint8_t c)
{
	if (l->dropped)
		return;
	if (*l->o.held >= TOOL_LIST_HELD_MAX || buf_add(&l->held, &c, 1) < 0)
		drop_held(l);
	else
		++*l->o.held;
}

/* --- the message --- */

static void take_name(struct tool_list *l, const struct json_stream_token *t)
{
	if (t->kind != JSON_STREAM_STRING || l->named || t->cut || t->n > CALL_NAME_MAX ||
		memchr(t->text, 0, t->n)) {
		drop_held(l);
		return;
	}
	memcpy(l->name, t->text, t->n);
	l->name[t->n] = '\0';
	l->named = true;
}

static void take_key(struct tool_list *l, unsigned depth, const char *text)
{
	if (depth == MEMBER)
		l->result_key = strcmp(text, "result") == 0;
	else if (depth == RESULT_MEMBER)
		l->tools_key = strcmp(text, "tools") == 0;
	else if (depth == TOOL_MEMBER)
		l->name_key = strcmp(text, "name") == 0;
}

static void begin_tool(struct tool_list *l)
{
	l->tool = true;
	l->dropped = l->named = l->name_key = false;
}

static void take_begin(struct tool_list *l, unsigned depth, bool array)
{
	if (depth == MEMBER && l->result_key && !array) {
		l->result = true;
		l->tools_key = false;
	} else if (depth == RESULT_MEMBER && l->result && l->tools_key && array) {
		l->tools = true;
		l->shown_one = false;
	} else if (depth == TOOL && l->tools && !array) {
		begin_tool(l);
	}
}

static void take_end(struct tool_list *l, unsigned depth)
{
	if (depth == MEMBER)
		l->result = false;
	else if (depth == RESULT_MEMBER)
		l->tools = false;
	else if (depth == TOOL)
		l->tool_ends = l->tool;
}

static void on_token(void *arg, const struct json_stream_token *t)
{
	struct tool_list *l = arg;
	unsigned depth = t->depth - l->batch;
	bool array = t->kind == JSON_STREAM_ARRAY, begins = array || t->kind == JSON_STREAM_OBJECT;

	if (t->depth == 0) {
		l->batch = begins ? array : l->batch;
		return;
	}
	if (l->tool && depth == TOOL_MEMBER && l->name_key && t->kind != JSON_STREAM_KEY &&
		t->kind != JSON_STREAM_END)
		take_name(l, t);
	if (t->kind == JSON_STREAM_KEY)
		take_key(l, depth, t->text);
	else if (begins)
		take_begin(l, depth, array);
	else if (t->kind == JSON_STREAM_END)
		take_end(l, depth);
}

/* `first` comes next. If it is a space, one that readers leave out stands before it, as it did. */
static void open_line(struct tool_list *l, uint8_t first)
{
	if (l->o.events && !l->line_open)
		put(l, "data: ", first == ' ' ? 6 : 5);
	l->line_open = true;
}

static void end_tool(struct tool_list *l)
{
	l->tool = l->tool_ends = false;
	if (!l->dropped && l->named && l->o.shown(l->o.arg, l->name)) {
		open_line(l, ',');
		put(l, ",", l->shown_one);
		put(l, buf_head(&l->held), buf_len(&l->held));
		l->shown_one = true;
	}
	drop_held(l);
}

static void read_json(struct tool_list *l, uint8_t c)
{
	if (!json_stream_feed(&l->json, &c, 1) && !l->err)
		l->err = -EBADMSG;
}

static void take_json(struct tool_list *l, uint8_t c)
{
	bool tools = l->tools;

	read_json(l, c);
	if (l->tool)
		hold(l, c);
	if (l->tool_ends) {
		end_tool(l);
	} else if (!l->tool && !(tools && l->tools)) { /* else it stands between tools */
		open_line(l, c);
		put(l, &c, 1);
	}
}

static void begin_message(struct tool_list *l)
{
	json_stream_begin(&l->json, on_token, l);
	l->batch = 0;
	l->result = l->tools = l->tool = l->result_key = false;
	drop_held(l);
}

/* --- events --- */

static void end_line(struct tool_list *l)
{
	if (l->line_open)
		put(l, "\n", 1);
	l->line_open = false;
}

static void end_event(struct tool_list *l)
{
	if (l->data == JSON && !json_stream_end(&l->json) && !l->err)
		l->err = -EBADMSG;
	end_line(l);
	put(l, "\n", 1);
	l->data = NO_DATA;
	l->joint = false;
	begin_message(l);
}

static bool is_data(const struct tool_list *l)
{
	return l->field_bytes == 4 && memcmp(l->field, "data", 4) == 0;
}

/* A line of another field. */
static void begin_other(struct tool_list *l)
{
	end_line(l);
	put(l, l->field, l->field_bytes);
	l->line = OTHER;
}

/* The message goes on in another line. */
static void join_lines(struct tool_list *l)
{
	if (!l->joint)
		return;
	l->joint = false;
	if (l->line_open || l->tool)
		take_json(l, ' ');
	else
		read_json(l, ' ');
}

static void take_data(struct tool_list *l, uint8_t c)
{
	bool blank = c == ' ' || c == '\t';

	if (l->data == NO_DATA && !blank)
		l->data = c == '{' || c == '[' ? JSON : TEXT;
	if (l->data == JSON) {
		join_lines(l);
		take_json(l, c);
	} else if (l->data == TEXT) {
		open_line(l, c);
		put(l, &c, 1);
	}
}

static void take_line_end(struct tool_list *l)
{
	bool text = l->line == DATA || l->line == SPACE;

	if (l->line == FIELD && l->field_bytes == 0) {
		end_event(l);
	} else if (l->data == JSON && (text || (l->line == FIELD && is_data(l)))) {
		l->joint = true;
	} else if (text) {
		open_line(l, '\n');
		end_line(l);
	} else {
		if (l->line == FIELD)
			begin_other(l);
		put(l, "\n", 1);
	}
	l->line = FIELD;
	l->field_bytes = 0;
}

static void take_field(struct tool_list *l, uint8_t c)
{
	if (c == ':' && is_data(l)) {
		l->line = SPACE;
		return;
	}
	if (c != ':')
		l->field[l->field_bytes++] = (char)c;
	if (c != ':' && l->field_bytes < FIELD_MAX)
		return;
	begin_other(l);
	put(l, ":", c == ':');
}

static void take_line_byte(struct tool_list *l, uint8_t c)
{
	bool after_cr = l->after_cr;

	l->after_cr = c == '\r';
	if (c == '\n' && after_cr)
		return;
	if (c == '\n' || c == '\r') {
		take_line_end(l);
	} else if (l->line == FIELD) {
		take_field(l, c);
	} else if (l->line == OTHER) {
		put(l, &c, 1);
	} else if (l->line == SPACE && c == ' ') {
		l->line = DATA;
	} else {
		l->line = DATA;
		take_data(l, c);
	}
}

/* Readers leave one byte order mark out at the beginning. So does this, and passes it on: without
 * it they would leave out a second one, and read a line that was none here. */
static void take_event_byte(struct tool_list *l, uint8_t c)
{
	static const uint8_t bom[BOM_BYTES] = {0xef, 0xbb, 0xbf};
	unsigned n = l->bom_bytes;

	if (n < BOM_BYTES && c == bom[n]) {
		if (++l->bom_bytes == BOM_BYTES)
			put(l, bom, BOM_BYTES);
		return;
	}
	l->bom_bytes = BOM_BYTES;
	for (unsigned i = 0; n < BOM_BYTES && i < n; i++)
		take_line_byte(l, bom[i]); /* they were none */
	take_line_byte(l, c);
}

/* --- life --- */

struct tool_list *tool_list_new(const struct tool_list_options *o)
{
	struct tool_list *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->o = *o;
	buf_init(&l->held, TOOL_LIST_TOOL_MAX);
	begin_message(l);
	return l;
}

void tool_list_free(struct tool_list *l)
{
	if (l)
		drop_held(l);
	free(l);
}

int tool_list_bytes(struct tool_list *l, const uint8_t *data, size_t n, struct buf *out)
{
	l->out = out;
	for (size_t i = 0; i < n && !l->err; i++)
		if (l->o.events)
			take_event_byte(l, data[i]);
		else
			take_json(l, data[i]);
	return l->err;
}

size_t tool_list_waiting(const struct tool_list *l)
{
	return l ? buf_len(&l->held) : 0;
}
