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
	one = json_pack("{s:i, s:{}, s:{}, s:{}}", "count", 0, "api", "models", "serverTools");
	return json_object_set_new(all, key, one) == 0 ? one : NULL;
}

static int put(json_t *one, const char *member, const char *name)
{
	return json_object_set_new(json_object_get(one, member), name, json_true());
}

int suggest_models_note(json_t *all, const char *key, const json_t *record)
{
	const json_t *tools = json_object_get(record, "serverTools");
	json_t *one = entry(all, key);
	json_int_t count = json_integer_value(json_object_get(one, "count"));
	int r = one ? 0 : -1;

	if (json_object_get(record, "unclear") || json_object_get(record, "cut"))
		return r == 0 ? 0 : -ENOMEM; /* it does not count, so not all are known */
	r = r ? r : json_object_set_new(one, "count", json_integer(count + 1));
	r = r ? r : put(one, "api", json_tree_text(record, "api"));
	r = r ? r : put(one, "models", json_tree_text(record, "model"));
	for (size_t i = 0; r == 0 && i < json_array_size(tools); i++) {
		const char *name = json_string_value(json_array_get(tools, i));

		r = name ? put(one, "serverTools", name) : 0;
	}
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

int suggest_models_add(const json_t *all, const char *key, json_int_t count, json_t *rule)
{
	const json_t *one = json_object_get(all, key), *tools = json_object_get(one, "serverTools");
	json_t *apis, *models, *list;
	int r = -1;

	if (!one || json_integer_value(json_object_get(one, "count")) != count)
		return 0;
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
