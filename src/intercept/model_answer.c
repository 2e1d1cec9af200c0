/* Where the counts and calls stand:
 *
 *	Anthropic  usage {input_tokens, cache_*_input_tokens, output_tokens}, in a stream also in
 *		   `message`; content[] and content_block {"type": "tool_use", "name"}
 *	OpenAI	   usage {prompt_tokens, completion_tokens} or {input_tokens, output_tokens}, in a
 *		   stream also in `response`; tool_calls[].function.name; output[] {"type":
 *		   "function_call", "name"}
 *	Google	   usageMetadata {promptTokenCount, ...TokenCount}; functionCall.name */
#include "intercept/model_answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "intercept/gunzip.h"
#include "proto/http_headers.h"
#include "proto/json_stream.h"

enum key {
	KEY_NONE,
	/* counts, in this order in `counts` */
	KEY_IN,
	KEY_CACHE_MADE,
	KEY_CACHE_READ,
	KEY_TOOL_PROMPT,
	KEY_OUT,
	KEY_THOUGHTS,
	KEY_COUNTS_,
	KEY_USAGE,
	KEY_CALLS, /* tool_calls */
	KEY_FUNCTION,
	KEY_FUNCTION_CALL,
	KEY_BLOCK, /* content_block */
	KEY_LIST,  /* content, output */
	KEY_NAME,
	KEY_TYPE,
};

enum { LEVELS = 12, USAGE_DEPTH_MAX = 3, FIELD_MAX = 5, WORD_MAX = 32 };

struct level {
	enum key key;
	bool array, calls; /* calls: its type says so */
	char name[MODEL_ANSWER_NAME_MAX + 1];
};

struct model_answer {
	bool events;
	struct gunzip *coded; /* owned; NULL: it is not compressed */
	struct json_stream json;
	struct level levels[LEVELS];
	enum key key; /* of the next value in an object */
	bool counted;
	uint64_t counts[KEY_COUNTS_];
	char tools[MODEL_ANSWER_TOOLS_MAX][MODEL_ANSWER_NAME_MAX + 1];
	unsigned tool_count;
	/* Of events: the line that is read. */
	char field[FIELD_MAX]; /* its first bytes */
	size_t field_bytes, line_bytes;
	bool has_data; /* the event has some */
};

static enum key key_of(const char *text)
{
	static const struct {
		const char *text;
		enum key key;
	} known[] = {
		{"cache_creation_input_tokens", KEY_CACHE_MADE},
		{"cache_read_input_tokens", KEY_CACHE_READ},
		{"candidatesTokenCount", KEY_OUT},
		{"completion_tokens", KEY_OUT},
		{"content", KEY_LIST},
		{"content_block", KEY_BLOCK},
		{"function", KEY_FUNCTION},
		{"functionCall", KEY_FUNCTION_CALL},
		{"function_call", KEY_FUNCTION_CALL},
		{"input_tokens", KEY_IN},
		{"name", KEY_NAME},
		{"output", KEY_LIST},
		{"output_tokens", KEY_OUT},
		{"promptTokenCount", KEY_IN},
		{"prompt_tokens", KEY_IN},
		{"thoughtsTokenCount", KEY_THOUGHTS},
		{"toolUsePromptTokenCount", KEY_TOOL_PROMPT},
		{"tool_calls", KEY_CALLS},
		{"type", KEY_TYPE},
		{"usage", KEY_USAGE},
		{"usageMetadata", KEY_USAGE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(text, known[i].text) == 0)
			return known[i].key;
	return KEY_NONE;
}

/* --- counts and calls --- */

static void take_count(struct model_answer *a, enum key key, const char *text)
{
	uint64_t n;

	if (str_parse_u64(text, &n) < 0 || n > INT32_MAX)
		return;
	a->counted = true;
	if (n > a->counts[key])
		a->counts[key] = n;
}

static void add_tool(struct model_answer *a, const char *name)
{
	for (unsigned i = 0; i < a->tool_count; i++)
		if (strcmp(a->tools[i], name) == 0)
			return;
	if (*name && a->tool_count < MODEL_ANSWER_TOOLS_MAX)
		memcpy(a->tools[a->tool_count++], name, strlen(name) + 1); /* of this size */
}

static bool is_call(const char *type)
{
	static const char *const types[] = {"tool_use", "server_tool_use", "mcp_tool_use",
		"function_call", "custom_tool_call", "mcp_call"};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strcmp(type, types[i]) == 0)
			return true;
	return false;
}

/* Whether the object at a level names a tool that is called. */
static bool names_call(const struct model_answer *a, unsigned depth)
{
	const struct level *l = &a->levels[depth];
	const struct level *list = depth > 0 ? &a->levels[depth - 1] : NULL;
	bool item = list && list->array;

	switch (l->key) {
	case KEY_FUNCTION_CALL:
		return true;
	case KEY_FUNCTION:
		return item || (depth > 1 && a->levels[depth - 2].key == KEY_CALLS);
	case KEY_BLOCK:
		return l->calls;
	default:
		return item && list->key == KEY_LIST && l->calls;
	}
}

static void take_text(struct model_answer *a, unsigned depth, const struct json_stream_token *t)
{
	struct level *l = &a->levels[depth - 1];

	if (t->cut || t->n > MODEL_ANSWER_NAME_MAX || memchr(t->text, 0, t->n))
		return;
	if (a->key == KEY_NAME)
		memcpy(l->name, t->text, t->n + 1);
	else if (a->key == KEY_TYPE)
		l->calls = is_call(t->text);
}

static void take_value(struct model_answer *a, const struct json_stream_token *t)
{
	const struct level *l = &a->levels[t->depth - 1];

	if (l->array)
		return;
	if (t->kind == JSON_STREAM_STRING)
		take_text(a, t->depth, t);
	else if (t->kind == JSON_STREAM_NUMBER && l->key == KEY_USAGE &&
		 t->depth <= USAGE_DEPTH_MAX + 1 && a->key > KEY_NONE && a->key < KEY_COUNTS_)
		take_count(a, a->key, t->text);
}

static void on_token(void *arg, const struct json_stream_token *t)
{
	struct model_answer *a = arg;
	bool in_array = t->depth && t->depth <= LEVELS && a->levels[t->depth - 1].array;

	if (t->depth > LEVELS)
		return;
	if (t->kind == JSON_STREAM_KEY) {
		a->key = t->cut ? KEY_NONE : key_of(t->text);
	} else if (t->kind == JSON_STREAM_END) {
		if (t->depth < LEVELS && names_call(a, t->depth))
			add_tool(a, a->levels[t->depth].name);
	} else if (t->kind == JSON_STREAM_OBJECT || t->kind == JSON_STREAM_ARRAY) {
		if (t->depth < LEVELS)
			a->levels[t->depth] =
				(struct level){.key = t->depth && !in_array ? a->key : KEY_NONE,
					.array = t->kind == JSON_STREAM_ARRAY};
	} else if (t->depth) {
		take_value(a, t);
	}
}

/* --- events --- */

static bool is_data(const struct model_answer *a)
{
	return a->field_bytes == FIELD_MAX && memcmp(a->field, "data:", FIELD_MAX) == 0;
}

static void end_line(struct model_answer *a)
{
	if (a->line_bytes == 0 && a->has_data) { /* the event is complete */
		json_stream_begin(&a->json, on_token, a);
		a->has_data = false;
	}
	a->field_bytes = a->line_bytes = 0;
}

/* Bytes of a line, without its end. */
static void take_line(struct model_answer *a, const char *s, size_t n)
{
	for (; n && a->field_bytes < FIELD_MAX; s++, n--) {
		a->field[a->field_bytes++] = *s;
		a->line_bytes += *s != '\r';
	}
	a->line_bytes += n;
	if (n && is_data(a)) {
		a->has_data = true;
		(void)json_stream_feed(&a->json, s, n); /* what is no JSON says nothing */
	}
}

static void take_events(struct model_answer *a, const char *s, size_t n)
{
	while (n) {
		const char *end = memchr(s, '\n', n);
		size_t bytes = end ? (size_t)(end - s) : n;

		take_line(a, s, bytes);
		if (end)
			end_line(a);
		s += bytes + (end != NULL);
		n -= bytes + (end != NULL);
	}
}

/* --- an answer --- */

struct model_answer *model_answer_new(const char *content_type, const char *coding)
{
	bool events = http_content_type_is(content_type, "text/event-stream");
	struct model_answer *a = NULL;

	if (events || http_content_type_is(content_type, "application/json"))
		a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->events = events;
	json_stream_begin(&a->json, on_token, a);
	if (coding)
		a->coded = gunzip_new(coding);
	if (!coding || a->coded)
		return a;
	free(a);
	return NULL;
}

void model_answer_free(struct model_answer *a)
{
	if (a)
		gunzip_free(a->coded);
	free(a);
}

static void take_plain(void *arg, const void *data, size_t n)
{
	struct model_answer *a = arg;

	if (a->events)
		take_events(a, data, n);
	else
		(void)json_stream_feed(&a->json, data, n); /* as above */
}

void model_answer_feed(struct model_answer *a, const void *data, size_t n)
{
	if (a->coded)
		gunzip_feed(a->coded, data, n, take_plain, a);
	else
		take_plain(a, data, n);
}

/* What is missing could have larger counts. */
static bool has_counts(const struct model_answer *a)
{
	return a && a->counted && (!a->coded || gunzip_is_whole(a->coded));
}

struct model_answer_said model_answer_said(const struct model_answer *a)
{
	struct model_answer_said said = {.counted = has_counts(a)};

	if (!a)
		return said;
	for (enum key k = KEY_IN; k < KEY_COUNTS_; k++)
		*(k < KEY_OUT ? &said.tokens_in : &said.tokens_out) += a->counts[k];
	for (; said.tool_count < a->tool_count; said.tool_count++)
		said.tools[said.tool_count] = a->tools[said.tool_count];
	return said;
}
