/* Conditions of rules on models and tools: parses them, and matches requests.
 *
 * A rule that allows matches a request if all its tools match. A rule that denies or asks matches
 * if one tool does. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "rules/rules_internal.h"

static bool is_hard(enum rules_action action)
{
	return action == RULES_DENY || action == RULES_ASK;
}

/* --- the members --- */

static int take_apis(const struct policy_at *of, json_t *rule, struct rules_call *c)
{
	struct rules_list l;
	int e = rules_list_begin(of, rule, "api", RULES_ITEMS_MAX, &l);

	for (size_t i = 0; i < l.count && e == 0; i++) {
		struct policy_at at;
		const char *text = json_string_value(rules_list_item(&l, i, &at));
		unsigned api = CALL_ANTHROPIC;

		while (api <= CALL_MCP && (!text || strcmp(text, call_api_word(api)) != 0))
			api <<= 1;
		if (api > CALL_MCP)
			return policy_bad(
				&at, "expected \"anthropic\", \"openai\", \"google\" or \"mcp\"");
		c->apis |= api;
	}
	if (c->apis == 0)
		c->apis = CALL_MODELS;
	return e;
}

static bool is_pattern(const char *text)
{
	size_t n = text ? strlen(text) : 0;

	for (size_t i = 0; i < n; i++)
		if (text[i] < '!' || text[i] > '~')
			return false;
	return n && n <= CALL_MODEL_MAX;
}

/* Asterisks of rules that deny or ask match slashes, too: "*-opus-*" is meant for
 * "anthropic/claude-opus-4" as well. */
static int take_pattern(const char *text, enum rules_action action, char **ret)
{
	char wide[2 * CALL_MODEL_MAX + 1];
	size_t n = 0;

	if (!is_hard(action))
		return rules_take_text(text, ret);
	for (; *text; text++) {
		wide[n++] = *text;
		if (*text != '*')
			continue;
		wide[n++] = '*';
		text += strspn(text, "*") - 1;
	}
	wide[n] = '\0';
	return rules_take_text(wide, ret);
}

static int take_patterns(const struct policy_at *of, json_t *rule, const char *name,
	enum rules_action action, char ***ret, unsigned *ret_count)
{
	struct rules_list l;
	int e = rules_list_begin(of, rule, name, RULES_ITEMS_MAX, &l);

	e = e ? e : rules_list_make_room(&l, sizeof((*ret)[0]), (void **)ret);
	for (size_t i = 0; i < l.count && e == 0; i++) {
		struct policy_at at;
		const char *text = json_string_value(rules_list_item(&l, i, &at));

		if (!is_pattern(text))
			return policy_bad(&at, "expected a name of at most 200 letters of ASCII; "
					       "* and ** are wildcards");
		e = take_pattern(text, action, &(*ret)[(*ret_count)++]);
	}
	return e;
}

static int take_models(
	const struct policy_at *of, json_t *rule, enum rules_action action, struct rules_call *c)
{
	int e = take_patterns(of, rule, "models", action, &c->models, &c->model_count);

	for (unsigned i = 0; i < c->model_count && e == 0; i++)
		for (char *s = c->models[i]; *s; s++)
			*s = (char)tolower((unsigned char)*s);
	return e;
}

static int take_server_tools(
	const struct policy_at *of, json_t *rule, enum rules_action action, struct rules_call *c)
{
	struct policy_at at = policy_member(of, "serverTools");
	json_t *v = json_object_get(rule, "serverTools");

	if (!json_is_boolean(v))
		return take_patterns(
			of, rule, "serverTools", action, &c->server_tools, &c->server_tool_count);
	if (!is_hard(action)) {
		c->no_server_tools = json_is_false(v);
		return 0;
	}
	if (json_is_false(v))
		return policy_bad(&at, "false is for rules that allow; in rules that deny or ask, "
				       "give true or names");
	c->server_tools = calloc(1, sizeof(c->server_tools[0]));
	c->server_tool_count = c->server_tools != NULL;
	return c->server_tools ? rules_take_text("**", &c->server_tools[0]) : -ENOMEM;
}

static int take_argument(const struct policy_at *at, json_t *v, struct rules_argument *a)
{
	static const char *const names[] = {"at", "equals", "prefix", NULL};
	const char *pointer = json_string_value(json_object_get(v, "at"));
	json_t *equals = json_object_get(v, "equals"), *prefix = json_object_get(v, "prefix");
	int e = policy_known_members(at, v, names);

	if (e < 0)
		return e;
	if (!pointer || (pointer[0] && pointer[0] != '/') || strlen(pointer) > RULES_POINTER_MAX)
		return policy_bad(at, "expected \"at\", a JSON pointer such as \"/path\"");
	if (!equals == !prefix || (prefix && !json_is_string(prefix)))
		return policy_bad(
			at, "expected \"equals\" with a value, or \"prefix\" with a text");
	e = rules_take_text(pointer, &a->at);
	if (e == 0 && prefix)
		return rules_take_text(json_string_value(prefix), &a->prefix);
	a->equals = json_incref(equals);
	return e;
}

static int take_arguments(const struct policy_at *of, json_t *rule, struct rules_call *c)
{
	struct rules_list l;
	int e = rules_list_begin(of, rule, "arguments", RULES_ARGUMENTS_MAX, &l);

	e = e ? e : rules_list_make_room(&l, sizeof(c->arguments[0]), (void **)&c->arguments);
	for (size_t i = 0; i < l.count && e == 0; i++) {
		struct policy_at at;
		json_t *v = rules_list_item(&l, i, &at);

		e = take_argument(&at, v, &c->arguments[c->argument_count++]);
	}
	return e;
}

/* Members that an API does not have. */
static int check(const struct policy_at *of, const struct rules_call *c, enum rules_action action)
{
	bool model = c->model_count || c->max_tokens || c->server_tool_count || c->no_server_tools;

	if (model && c->apis & CALL_MCP)
		return policy_bad(of, "models, maxTokens and serverTools are not of the api mcp");
	if (c->argument_count && c->apis != CALL_MCP)
		return policy_bad(of, "arguments are for rules of the api mcp only");
	if (c->max_tokens && is_hard(action))
		return policy_bad(
			of, "maxTokens is for rules that allow: let a later rule deny or ask");
	return 0;
}

static bool has_any(json_t *rule)
{
	static const char *const names[] = {
		"api", "models", "maxTokens", "serverTools", "tools", "arguments"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (json_object_get(rule, names[i]))
			return true;
	return false;
}

int rules_call_make(
	const struct policy_at *of, json_t *rule, enum rules_action action, struct rules_call **ret)
{
	struct rules_call *c;
	int e;

	if (!has_any(rule))
		return 0;
	*ret = c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	e = take_apis(of, rule, c);
	e = e ? e : take_models(of, rule, action, c);
	e = e ? e : policy_get_number(of, rule, "maxTokens", 1, INT32_MAX, &c->max_tokens);
	e = e ? e : take_server_tools(of, rule, action, c);
	e = e ? e : take_patterns(of, rule, "tools", action, &c->tools, &c->tool_count);
	e = e ? e : take_arguments(of, rule, c);
	c->body = c->model_count || c->max_tokens || c->server_tool_count || c->no_server_tools ||
		  c->tool_count || c->argument_count;
	return e ? e : check(of, c, action);
}

static void free_patterns(char **patterns, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		free(patterns[i]);
	free(patterns);
}

void rules_call_free(struct rules_call *c)
{
	if (!c)
		return;
	free_patterns(c->models, c->model_count);
	free_patterns(c->server_tools, c->server_tool_count);
	free_patterns(c->tools, c->tool_count);
	for (unsigned i = 0; i < c->argument_count; i++) {
		free(c->arguments[i].at);
		free(c->arguments[i].prefix);
		json_decref(c->arguments[i].equals);
	}
	free(c->arguments);
	free(c);
}

/* --- what fits --- */

unsigned rules_call_api(const struct rules_call *c, const char *path)
{
	unsigned model = call_api_of_path(path) & c->apis;

	return model ? model : c->apis & CALL_MCP;
}

static bool any_pattern(char *const *patterns, unsigned n, const char *text)
{
	for (unsigned i = 0; i < n; i++)
		if (path_matches(patterns[i], text))
			return true;
	return false;
}

bool rules_call_names_tool(const struct rules_call *c, const char *tool)
{
	return any_pattern(c->tools, c->tool_count, tool);
}

/* Of a rule that allows, all names; of others, one. */
static bool names_fit(bool hard, char *const *patterns, unsigned n, const struct call_names *names)
{
	for (unsigned i = 0; i < names->count; i++)
		if (any_pattern(patterns, n, names->names[i]) == hard)
			return hard;
	return !hard;
}

static bool model_matches(const struct rules_call *c, bool hard, const struct call *call)
{
	if (c->model_count &&
		(!call->model[0] || !any_pattern(c->models, c->model_count, call->model)))
		return false;
	if (c->max_tokens && (!call->limited || call->max_tokens > c->max_tokens))
		return false;
	if (c->no_server_tools && call->server_tools.count)
		return false;
	if (c->server_tool_count &&
		!names_fit(hard, c->server_tools, c->server_tool_count, &call->server_tools))
		return false;
	return !c->tool_count || names_fit(hard, c->tools, c->tool_count, &call->tools);
}

/* --- arguments --- */

/* Decodes one name of a pointer, with ~0 for '~' and ~1 for '/'. Moves *at behind it. */
static bool next_name(const char **at, char out[RULES_POINTER_MAX + 1])
{
	const char *s = *at;
	size_t n = 0;

	if (*s++ != '/')
		return false;
	for (; *s && *s != '/'; s++) {
		bool escaped = *s == '~' && (s[1] == '0' || s[1] == '1');

		s += escaped;
		out[n++] = escaped ? (*s == '0' ? '~' : '/') : *s;
	}
	out[n] = '\0';
	*at = s;
	return true;
}

const json_t *rules_call_argument(const json_t *v, const char *pointer)
{
	char name[RULES_POINTER_MAX + 1];
	uint64_t index;

	while (v && next_name(&pointer, name)) {
		if (json_is_array(v))
			v = str_parse_u64(name, &index) == 0 ? json_array_get(v, (size_t)index)
							     : NULL;
		else
			v = json_object_get(v, name);
	}
	return v;
}

static bool equals(const json_t *a, const json_t *b)
{
	if (json_is_number(a) && json_is_number(b))
		return json_number_value(a) == json_number_value(b);
	return json_equal(a, b);
}

/* A path that leads out of where it begins. */
static bool leads_out(const char *s)
{
	for (const char *at = s; (at = strstr(at, "..")); at += 2)
		if ((at == s || at[-1] == '/' || at[-1] == '\\') &&
			(at[2] == '\0' || at[2] == '/' || at[2] == '\\'))
			return true;
	return false;
}

static bool argument_fits(const struct rules_argument *a, bool hard, const json_t *arguments)
{
	const json_t *v = rules_call_argument(arguments, a->at);
	const char *text = json_string_value(v);

	if (!a->prefix)
		return v && equals(v, a->equals);
	if (!text)
		return false;
	return str_starts_with(text, a->prefix) ? hard || !leads_out(text) : false;
}

static bool message_matches(const struct rules_call *c, bool hard, const struct call_message *m)
{
	if (!c->tool_count && !c->argument_count)
		return true;
	if (!m->tool)
		return !hard && call_is_session(m->method);
	if (c->tool_count && !any_pattern(c->tools, c->tool_count, m->tool))
		return false;
	if (c->argument_count && m->any_arguments)
		return !hard;
	for (unsigned i = 0; i < c->argument_count; i++)
		if (!argument_fits(&c->arguments[i], hard, m->arguments))
			return false;
	return true;
}

bool rules_call_matches(const struct rules_rule *r, unsigned api, const struct call *call,
	const struct call_message *m)
{
	bool hard = is_hard(r->action);

	if (api == CALL_MCP)
		return m && message_matches(r->call, hard, m);
	return model_matches(r->call, hard, call);
}
