/* Requests to models, member by member. What stands where:
 *
 *	model, max_tokens, ...		the root; Google's in generationConfig
 *	tools[]				{"type", "name"}, {"type", "function": {"name"}}; Google's
 *					{"functionDeclarations": [{"name"}], "googleSearch": {}}
 *	messages, input, contents, ...	sources that the provider fetches, at any depth. Arguments
 *					and results of tools (input, args, response) are the
 *					program's own */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "rules/call_internal.h"
#include "rules/fold.h"

enum { CHOICES_MAX = 1000 };

static const char twice[] = "it has a member twice";
static const char odd[] = "a member of it has an unexpected type";

static bool is_container(const struct json_stream_token *t)
{
	return t->kind == JSON_STREAM_OBJECT || t->kind == JSON_STREAM_ARRAY;
}

static bool is_set(const struct json_stream_token *t)
{
	return t->kind != JSON_STREAM_NULL && t->kind != JSON_STREAM_FALSE;
}

/* A string whose bytes are all there, of at most max. */
static bool is_text(const struct json_stream_token *t, size_t max)
{
	return t->kind == JSON_STREAM_STRING && !t->cut && t->n <= max && !memchr(t->text, 0, t->n);
}

static void add_server_tool(struct call_reader *r, const char *name)
{
	call_add_name(r, &r->call.server_tools, name);
}

static void add_tool(struct call_reader *r, const struct json_stream_token *t)
{
	if (is_text(t, CALL_NAME_MAX))
		call_add_name(r, &r->call.tools, t->text);
	else
		call_unclear(r, "the name of a tool is no string, or too long");
}

/* --- the root --- */

static void take_model(struct call_reader *r, const struct json_stream_token *t)
{
	if (t->kind == JSON_STREAM_NULL)
		return;
	if (!is_text(t, CALL_MODEL_MAX)) {
		call_unclear(r, "its model is no string, or too long");
		return;
	}
	for (size_t i = 0; i <= t->n; i++)
		r->call.model[i] = (char)tolower((unsigned char)t->text[i]);
}

static void take_max(struct call_reader *r, const struct json_stream_token *t)
{
	uint64_t n = 0;
	double v;

	if (t->kind == JSON_STREAM_NULL)
		return;
	if (t->kind == JSON_STREAM_STRING ? t->cut || str_parse_u64(t->text, &n) < 0
					  : t->kind != JSON_STREAM_NUMBER) {
		call_unclear(r, "its limit of tokens is no number");
		return;
	}
	if (t->kind == JSON_STREAM_NUMBER) {
		v = strtod(t->text, NULL);
		if (!(v >= 0) || v > 1e15) {
			call_unclear(r, "its limit of tokens is out of range");
			return;
		}
		n = (uint64_t)v + (v > (double)(uint64_t)v);
	}
	r->call.limited = true;
	if (n > r->call.max_tokens)
		r->call.max_tokens = n;
}

/* Anything but a number counts as many. */
static void take_choices(struct call_reader *r, const struct json_stream_token *t)
{
	uint64_t n = CHOICES_MAX;

	if (t->kind == JSON_STREAM_NULL)
		return;
	if (t->kind != JSON_STREAM_NUMBER || str_parse_u64(t->text, &n) < 0 || n > CHOICES_MAX)
		n = CHOICES_MAX;
	if (n > r->call.choices)
		r->call.choices = n;
}

/* A member of the root that refers to something stored at the provider, which we cannot see. */
static const char *provided(enum call_key key)
{
	switch (key) {
	case KEY_CACHED_CONTENT:
		return "cached_content";
	case KEY_CONTAINER:
		return "container";
	case KEY_MCP_SERVERS:
		return "mcp_servers";
	case KEY_MODELS:
		return "models";
	case KEY_PLUGINS:
		return "plugins";
	case KEY_WEB_SEARCH_OPTIONS:
		return "web_search";
	default:
		return NULL;
	}
}

/* The API that knows lists of servers gets empty ones, too. */
static bool is_list(enum call_key key)
{
	return key == KEY_MCP_SERVERS || key == KEY_MODELS || key == KEY_PLUGINS;
}

static void take_in_root(
	struct call_reader *r, enum call_key key, const struct json_stream_token *t)
{
	const char *name = provided(key);

	if (name && is_set(t) && !(is_list(key) && t->kind == JSON_STREAM_ARRAY))
		add_server_tool(r, name);
	else if (key == KEY_MODEL)
		take_model(r, t);
	else if (key == KEY_MAX_TOKENS || key == KEY_MAX_COMPLETION_TOKENS ||
		 key == KEY_MAX_OUTPUT_TOKENS)
		take_max(r, t);
	else if (key == KEY_CHOICES)
		take_choices(r, t);
	else if (key == KEY_PROMPT && t->kind == JSON_STREAM_OBJECT)
		add_server_tool(r, "prompt"); /* which is stored there, with tools of its own */
	else if ((key == KEY_TOOLS || key == KEY_FUNCTIONS) && is_set(t) &&
		 t->kind != JSON_STREAM_ARRAY)
		call_unclear(r, odd);
	else if (key == KEY_GENERATION_CONFIG && is_set(t) && t->kind != JSON_STREAM_OBJECT)
		call_unclear(r, odd);
}

/* An item of a list in the root. */
static void take_item(struct call_reader *r, enum call_key list, const struct json_stream_token *t)
{
	if (provided(list))
		add_server_tool(r, provided(list));
	else if ((list == KEY_TOOLS || list == KEY_FUNCTIONS) && t->kind != JSON_STREAM_OBJECT)
		call_unclear(r, odd);
}

/* --- tools --- */

/* What a program runs itself, in its provider's own form. */
static bool is_run_by_program(unsigned api, const char *type)
{
	static const char *const anthropic[] = {
		"custom", "bash", "computer", "memory", "text_editor", NULL};
	static const char *const openai[] = {"function", "custom", "apply_patch", "computer",
		"computer_use", "computer_use_preview", "local_shell", NULL};

	for (const char *const *s = api & CALL_ANTHROPIC ? anthropic : openai; *s; s++)
		if (strcmp(*s, type) == 0)
			return true;
	return false;
}

/* OpenAI wants a type. Servers with the same API take a tool without one for a function, so it
 * counts as both. So does a tool with an empty type, with any API. */
static void end_tool(struct call_reader *r)
{
	const struct call_tool *t = &r->tool;
	bool ours = t->typed ? is_run_by_program(r->call.apis, t->type) : t->named;

	if (r->call.apis & CALL_GOOGLE)
		return; /* each member was taken */
	if (ours)
		call_add_name(r, &r->call.tools, t->named ? t->name : t->type);
	if (!ours || (!t->typed && (t->blank || !(r->call.apis & CALL_ANTHROPIC))))
		add_server_tool(r, t->typed ? t->type : "unknown");
}

static void take_tool_name(struct call_reader *r, const struct json_stream_token *t)
{
	if (!is_text(t, CALL_NAME_MAX)) {
		call_unclear(r, "the name of a tool is no string, or too long");
		return;
	}
	if (r->tool.named && strcmp(r->tool.name, t->text) != 0)
		call_unclear(r, "a tool of it has two names");
	memcpy(r->tool.name, t->text, t->n + 1);
	r->tool.named = true;
}

static void take_tool_type(struct call_reader *r, const struct json_stream_token *t)
{
	if (t->kind == JSON_STREAM_NULL || (t->kind == JSON_STREAM_STRING && t->n == 0)) {
		r->tool.blank = true; /* for many servers that is the same as none */
		return;
	}
	if (!is_text(t, CALL_WORD_MAX / 2)) {
		call_unclear(r, "the type of a tool is no string, or too long");
		return;
	}
	call_word(t->text, r->tool.type);
	r->tool.typed = true;
}

/* Google's have a member for each kind. */
static void take_google_tool(
	struct call_reader *r, enum call_key key, const struct json_stream_token *t)
{
	if (key == KEY_FUNCTION_DECLARATIONS && is_set(t) && t->kind != JSON_STREAM_ARRAY)
		call_unclear(r, odd);
	else if (key != KEY_FUNCTION_DECLARATIONS && is_set(t))
		add_server_tool(r, r->key_text[0] ? r->key_text : "unknown");
}

/* A value within tools. depth: of what it stands in. */
static void take_in_tools(
	struct call_reader *r, unsigned depth, enum call_key key, const struct json_stream_token *t)
{
	enum call_key parent = r->levels[depth - 1].key;
	bool google = r->call.apis & CALL_GOOGLE;

	if (depth == 3 && google)
		take_google_tool(r, key, t);
	else if (depth == 3 && key == KEY_TYPE)
		take_tool_type(r, t);
	else if (depth == 3 && key == KEY_NAME)
		take_tool_name(r, t);
	else if (depth == 4 && key == KEY_NAME && (parent == KEY_FUNCTION || parent == KEY_CUSTOM))
		take_tool_name(r, t);
	else if (depth == 5 && key == KEY_NAME && google &&
		 r->levels[3].key == KEY_FUNCTION_DECLARATIONS)
		add_tool(r, t);
}

/* --- content --- */

static bool is_inline(const struct json_stream_token *t)
{
	return t->kind == JSON_STREAM_STRING && t->n >= 5 && strncasecmp(t->text, "data:", 5) == 0;
}

static void take_source_type(struct call_reader *r, const struct json_stream_token *t)
{
	static const char *const here[] = {"base64", "text", "content", NULL};

	for (const char *const *s = here; *s && t->kind == JSON_STREAM_STRING; s++)
		if (strcmp(t->text, *s) == 0)
			return;
	if (t->kind == JSON_STREAM_STRING && strcmp(t->text, "url") == 0)
		add_server_tool(r, "url_source");
	else if (t->kind == JSON_STREAM_STRING && strcmp(t->text, "file") == 0)
		add_server_tool(r, "file_source");
	else
		add_server_tool(r, "unknown_source");
}

static void take_in_content(
	struct call_reader *r, unsigned depth, enum call_key key, const struct json_stream_token *t)
{
	enum call_key parent = r->levels[depth - 1].key;

	if (!is_set(t))
		return;
	if ((key == KEY_FETCHED || (key == KEY_URL && parent == KEY_FETCHED)) && !is_container(t)) {
		if (!is_inline(t))
			add_server_tool(r, "url_source");
	} else if (key == KEY_FETCHED && t->kind == JSON_STREAM_ARRAY) {
		add_server_tool(r, "url_source");
	} else if (parent == KEY_SOURCE && key == KEY_TYPE) {
		take_source_type(r, t);
	} else if (parent == KEY_SOURCE && key == KEY_URL) {
		add_server_tool(r, "url_source");
	} else if (key == KEY_FILE_ID || key == KEY_FILE_URI) {
		add_server_tool(r, "file_source");
	}
}

/* --- tokens --- */

static void take_value(
	struct call_reader *r, unsigned depth, enum call_key key, const struct json_stream_token *t)
{
	enum call_key root = depth > 1 ? r->levels[1].key : KEY_OTHER;

	if (depth == 1) {
		take_in_root(r, key, t);
	} else if (depth == 2 && root == KEY_GENERATION_CONFIG) {
		if (key == KEY_MAX_OUTPUT_TOKENS)
			take_max(r, t);
		else if (key == KEY_CHOICES)
			take_choices(r, t);
	} else if (depth == 2 && r->levels[1].array) {
		take_item(r, root, t);
	}
	if (depth > 2 && root == KEY_TOOLS)
		take_in_tools(r, depth, key, t);
	else if (depth == 3 && root == KEY_FUNCTIONS && key == KEY_NAME)
		add_tool(r, t);
	if (root != KEY_TOOLS && root != KEY_FUNCTIONS)
		take_in_content(r, depth, key, t);
}

/* What a program and its tools say to each other. */
static bool is_opaque(const struct call_reader *r, unsigned depth, enum call_key key)
{
	if (depth < 2)
		return key == KEY_METADATA;
	if (r->levels[1].key == KEY_TOOLS && depth > 2 && key == KEY_OTHER)
		return true;
	return key == KEY_INPUT || key == KEY_ARGS || key == KEY_ARGUMENTS || key == KEY_RESPONSE ||
	       key == KEY_SCHEMA;
}

static void open_level(struct call_reader *r, unsigned depth, enum call_key key, bool array)
{
	bool opaque = depth && (r->levels[depth - 1].opaque || is_opaque(r, depth, key));

	r->levels[depth] = (struct call_level){.key = key, .array = array, .opaque = opaque};
	if (depth == 2 && r->levels[1].key == KEY_TOOLS)
		r->tool = (struct call_tool){.typed = false};
}

static void close_level(struct call_reader *r, unsigned depth)
{
	if (depth == 2 && r->levels[1].key == KEY_TOOLS && !r->levels[2].array)
		end_tool(r);
}

static bool is_word(const struct json_stream_token *t, const char *word)
{
	return t->n == strlen(word) && memcmp(t->text, word, t->n) == 0;
}

/* Whether a member is spelled as the APIs do. Servers that know one spelling only ignore it in any
 * other, and then the request has no limit, or its tool another type. */
static bool is_spelled(
	const struct call_reader *r, enum call_key key, const struct json_stream_token *t)
{
	static const struct {
		enum call_key key;
		const char *text;
	} exact[] = {
		{KEY_MAX_COMPLETION_TOKENS, "max_completion_tokens"},
		{KEY_MAX_OUTPUT_TOKENS, "max_output_tokens"},
		{KEY_MAX_TOKENS, "max_tokens"},
		{KEY_MODEL, "model"},
		{KEY_NAME, "name"},
		{KEY_TYPE, "type"},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(exact); i++)
		if (exact[i].key == key)
			return is_word(t, exact[i].text) ||
			       (r->call.apis & CALL_GOOGLE && is_word(t, "maxOutputTokens"));
	return true;
}

/* The root, and the members that narrow what a request may do. */
static bool is_judged(const struct call_reader *r, unsigned depth)
{
	enum call_key root = r->levels[1].key;

	return depth == 1 || root == KEY_TOOLS || root == KEY_FUNCTIONS ||
	       root == KEY_GENERATION_CONFIG;
}

static void take_key(struct call_reader *r, const struct json_stream_token *t)
{
	struct call_level *l = &r->levels[t->depth - 1];
	uint64_t bit;

	if (l->opaque)
		return;
	if (t->depth == 1 && fold_is_override(t->text))
		call_unclear(r, CALL_OVERRIDES);
	if (t->cut || fold_is_foreign(t->text, t->n))
		call_unclear(r, "the name of a member is too long, or has letters beyond ASCII");
	r->key = call_key_of(t->text, t->n);
	if (t->depth == 3 && r->levels[1].key == KEY_TOOLS)
		call_word(t->text, r->key_text);
	if (is_judged(r, t->depth) && !is_spelled(r, r->key, t))
		call_unclear(r, "a member of it has an unusual spelling");
	bit = UINT64_C(1) << r->key;
	if (r->key != KEY_OTHER && r->key != KEY_FETCHED && l->seen & bit)
		call_unclear(r, twice);
	l->seen |= bit;
}

_Static_assert(KEY_COUNT_ <= 64, "bits of struct call_level");

void call_model_token(void *arg, const struct json_stream_token *t)
{
	struct call_reader *r = arg;
	const struct call_level *l = t->depth ? &r->levels[t->depth - 1] : NULL;
	enum call_key key = l && l->array ? KEY_ITEM : r->key;

	if (r->call.unclear)
		return;
	if (t->kind == JSON_STREAM_KEY) {
		take_key(r, t);
		return;
	}
	if (t->kind == JSON_STREAM_END) {
		close_level(r, t->depth);
		return;
	}
	if (!l && t->kind != JSON_STREAM_OBJECT)
		call_unclear(r, "its JSON is no object");
	if (l && !l->opaque)
		take_value(r, t->depth, key, t);
	if (is_container(t))
		open_level(r, t->depth, key, t->kind == JSON_STREAM_ARRAY);
}

void call_model_end(struct call_reader *r)
{
	struct call *c = &r->call;

	if (!json_stream_end(&r->stream)) {
		call_unclear(r, r->stream.wrong);
		return;
	}
	if (!r->path_model[0])
		return;
	if (c->model[0] && strcmp(c->model, r->path_model) != 0)
		call_unclear(r, "its path names another model than its body");
	strcpy(c->model, r->path_model); /* of the same size */
}
