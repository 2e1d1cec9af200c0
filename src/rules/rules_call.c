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

int rules_take_wide(const char *text, char **ret)
{
	char wide[2 * CALL_MODEL_MAX + 1];
	size_t n = 0;

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

/* Asterisks of rules that deny or ask match slashes, too: "*-opus-*" is meant for
 * "anthropic/claude-opus-4" as well. */
static int take_pattern(const char *text, enum rules_action action, char **ret)
{
	return is_hard(action) ? rules_take_wide(text, ret) : rules_take_text(text, ret);
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

static void lower(char *s)
{
	for (; *s; s++)
		*s = (char)tolower((unsigned char)*s);
}

static int take_models(
	const struct policy_at *of, json_t *rule, enum rules_action action, struct rules_call *c)
{
	int e = take_patterns(of, rule, "models", action, &c->models, &c->model_count);

	for (unsigned i = 0; i < c->model_count && e == 0; i++)
		lower(c->models[i]);
	return e;
}

/* Of rules that deny or ask in lower case: they match any. */
static int take_tools(
	const struct policy_at *of, json_t *rule, enum rules_action action, struct rules_call *c)
{
	int e = take_patterns(of, rule, "tools", action, &c->tools, &c->tool_count);

	for (unsigned i = 0; i < c->tool_count && c->hard && e == 0; i++)
		lower(c->tools[i]);
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
	c->hard = is_hard(action);
	e = take_apis(of, rule, c);
	e = e ? e : take_models(of, rule, action, c);
	e = e ? e : policy_get_number(of, rule, "maxTokens", 1, INT32_MAX, &c->max_tokens);
	e = e ? e : take_server_tools(of, rule, action, c);
	e = e ? e : take_tools(of, rule, action, c);
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

static bool any_pattern(
	char *const *patterns, unsigned n, const char *text, struct path_steps *steps)
{
	for (unsigned i = 0; i < n; i++)
		if (path_matches(patterns[i], text, steps))
			return true;
	return false;
}

/* In rules that deny or ask, in any case. */
bool rules_call_names_tool(const struct rules_call *c, const char *tool, struct path_steps *steps)
{
	char lower[CALL_NAME_MAX + 1];
	size_t n = strlen(tool);

	if (!c->hard || n > CALL_NAME_MAX)
		return any_pattern(c->tools, c->tool_count, tool, steps);
	for (size_t i = 0; i <= n; i++)
		lower[i] = (char)tolower((unsigned char)tool[i]);
	return any_pattern(c->tools, c->tool_count, lower, steps);
}

/* Of a rule that allows, all names; of others, one. */
static bool server_tools_fit(
	const struct rules_call *c, const struct call_names *names, struct path_steps *steps)
{
	for (unsigned i = 0; i < names->count; i++)
		if (any_pattern(c->server_tools, c->server_tool_count, names->names[i], steps) ==
			c->hard)
			return c->hard;
	return !c->hard;
}

static bool tools_fit(
	const struct rules_call *c, const struct call_names *names, struct path_steps *steps)
{
	for (unsigned i = 0; i < names->count; i++)
		if (rules_call_names_tool(c, names->names[i], steps) == c->hard)
			return c->hard;
	return !c->hard;
}

static bool model_matches(
	const struct rules_call *c, const struct call *call, struct path_steps *steps)
{
	if (c->model_count &&
		(!call->model[0] || !any_pattern(c->models, c->model_count, call->model, steps)))
		return false;
	if (c->max_tokens && (!call->limited || call->max_tokens > c->max_tokens))
		return false;
	if (c->no_server_tools && call->server_tools.count)
		return false;
	if (c->server_tool_count && !server_tools_fit(c, &call->server_tools, steps))
		return false;
	return !c->tool_count || tools_fit(c, &call->tools, steps);
}

/* --- messages of MCP --- */

/* All conditions fit, or it is unclear whether one does. */
static enum rules_fit arguments_fit(
	const struct rules_call *c, const struct call_message *m, const char **ret_why)
{
	enum rules_fit all = RULES_FITS;

	for (unsigned i = 0; i < c->argument_count; i++) {
		enum rules_fit one =
			rules_argument_fits(&c->arguments[i], c->hard, m->arguments, ret_why);

		if (one == RULES_FITS_NOT)
			return one;
		if (one == RULES_FITS_UNCLEAR)
			all = one;
	}
	return all;
}

static enum rules_fit message_fits(const struct rules_call *c, const struct call_message *m,
	struct path_steps *steps, const char **ret_why)
{
	if (!c->tool_count && !c->argument_count)
		return RULES_FITS;
	if (!m->tool)
		return !c->hard && call_is_session(m->method) ? RULES_FITS : RULES_FITS_NOT;
	if (c->tool_count && !rules_call_names_tool(c, m->tool, steps))
		return RULES_FITS_NOT;
	if (c->argument_count && m->any_arguments)
		return c->hard ? RULES_FITS_NOT : RULES_FITS;
	return arguments_fit(c, m, ret_why);
}

enum rules_fit rules_call_fits(const struct rules_rule *r, unsigned api, const struct call *call,
	const struct call_message *m, struct path_steps *steps, const char **ret_why)
{
	if (api == CALL_MCP)
		return m ? message_fits(r->call, m, steps, ret_why) : RULES_FITS_NOT;
	return model_matches(r->call, call, steps) ? RULES_FITS : RULES_FITS_NOT;
}
