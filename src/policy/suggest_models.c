#include "policy/suggest_models.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "proto/json_tree.h"
#include "rules/rules.h"

static const char cut[] = "..."; /* names that a record lacks (docs/policy.md) */

/* Returns the value of one key, made at first. */
static json_t *entry(json_t *all, const char *key)
{
	json_t *one = json_object_get(all, key);

	if (one)
		return one;
	one = json_pack("{s:i, s:{}, s:{}, s:{}, s:{}}", "count", 0, "api", "models", "serverTools",
		"tools");
	return json_object_set_new(all, key, one) == 0 ? one : NULL;
}

static int put(json_t *one, const char *member, const char *name)
{
	return json_object_set_new(json_object_get(one, member), name, json_true());
}

/* A record that is not counted is one of which not all is known. */
static int count(json_t *one, const char *api)
{
	json_int_t n = json_integer_value(json_object_get(one, "count"));
	int r = json_object_set_new(one, "count", json_integer(n + 1));

	return r ? r : put(one, "api", api);
}

static int note_model(json_t *one, const json_t *record)
{
	const json_t *tools = json_object_get(record, "serverTools");
	int r;

	if (json_object_get(record, "unclear") || json_object_get(record, "cut"))
		return 0;
	r = count(one, json_tree_text(record, "api"));
	r = r ? r : put(one, "models", json_tree_text(record, "model"));
	for (size_t i = 0; r == 0 && i < json_array_size(tools); i++) {
		const char *name = json_string_value(json_array_get(tools, i));

		r = name ? put(one, "serverTools", name) : 0;
	}
	return r;
}

int suggest_models_note(json_t *all, const char *key, const json_t *record)
{
	const char *kind = json_tree_text(record, "kind"), *mcp = json_tree_text(record, "mcp");
	json_t *one = entry(all, key);
	int r = one ? 0 : -1;

	if (r == 0 && strcmp(kind, "model") == 0)
		r = note_model(one, record);
	else if (r == 0 && strcmp(kind, "tool") == 0)
		r = put(one, "tools", json_tree_text(record, "tool"));
	else if (r == 0 && strcmp(mcp, "tools") == 0)
		r = count(one, "mcp");
	return r == 0 ? 0 : -ENOMEM;
}

/* As a list of names. NULL: they are no patterns of themselves, or out of memory. */
static json_t *list_of(const json_t *names)
{
	json_t *list = json_array(), *ignored;
	const char *name;
	bool good = list && json_object_size(names) <= RULES_ITEMS_MAX;

	json_object_foreach((json_t *)names, name, ignored)
	{
		for (const char *s = name; *s; s++)
			good = good && *s > ' ' && *s <= '~' && *s != '*';
		good = good && *name && json_array_append_new(list, json_string(name)) == 0;
	}
	if (good)
		return list;
	json_decref(list);
	return NULL;
}

/* A rule without names would allow all tools. */
static int add_tools(const json_t *one, json_t *rule)
{
	json_t *tools = list_of(json_object_get(one, "tools"));
	int r = 0;

	if (json_array_size(tools))
		r = json_object_update_new(
			    rule, json_pack("{s:[s], s:O}", "api", "mcp", "tools", tools)) == 0
			    ? 1
			    : -ENOMEM;
	json_decref(tools);
	return r;
}

static int add_model(const json_t *one, json_t *rule)
{
	const json_t *tools = json_object_get(one, "serverTools");
	json_t *apis, *models, *list;
	int r = -1;

	apis = list_of(json_object_get(one, "api"));
	models = list_of(json_object_get(one, "models"));
	if (apis && models)
		r = json_object_update_new(
			rule, json_pack("{s:O, s:O}", "api", apis, "models", models));
	json_decref(apis);
	json_decref(models);
	if (r < 0)
		return apis && models ? -ENOMEM : 0;
	if (json_object_get(tools, cut))
		return 1;
	list = json_object_size(tools) ? list_of(tools) : json_false();
	return !list || json_object_set_new(rule, "serverTools", list) == 0 ? 1 : -ENOMEM;
}

int suggest_models_add(const json_t *all, const char *key, json_int_t count, json_t *rule)
{
	const json_t *one = json_object_get(all, key);

	if (!one || json_integer_value(json_object_get(one, "count")) != count)
		return 0;
	return json_object_get(json_object_get(one, "api"), "mcp") ? add_tools(one, rule)
								   : add_model(one, rule);
}
