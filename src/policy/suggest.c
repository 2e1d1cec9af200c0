#include "policy/suggest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/net.h"
#include "base/str.h"
#include "policy/suggest_models.h"
#include "proto/json_tree.h"
#include "rules/rules.h"

enum { PORT_BYTES = 8, RECORD_PATH_MAX = 512 /* a record's path is cut there */ };

static int no_memory(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

int suggest_begin(struct suggest *s)
{
	*s = (struct suggest){.seen = json_object(), .models = json_object()};
	return s->seen && s->models ? 0 : -ENOMEM;
}

void suggest_done(struct suggest *s)
{
	json_decref(s->seen);
	json_decref(s->models);
	s->seen = s->models = NULL;
}

/* --- records --- */

/* Returns the object of this name in another one, borrowed. Makes it if it is missing. Returns NULL
 * when out of memory. */
static json_t *child(json_t *of, const char *name)
{
	json_t *c = json_object_get(of, name);

	if (c || !of)
		return c;
	return json_object_set_new(of, name, json_object()) == 0 ? json_object_get(of, name) : NULL;
}

/* Makes the pattern for a path, which may be cut. Returns -EINVAL if no rule can match it. */
static int pattern_of(const char *path, char out[RULES_PATH_MAX + 1])
{
	size_t n = strlen(path);
	char *slash;

	if (path_clean(path, n, out) < 0)
		return -EINVAL;
	if (strchr(out, '*') && strcmp(out, "*") != 0) /* as a pattern it would allow more */
		return -EINVAL;
	if (n < RECORD_PATH_MAX && strlen(out) <= RULES_PATTERN_MAX)
		return 0;
	out[RULES_PATTERN_MAX - 3] = '\0';
	slash = strrchr(out, '/');
	(void)strcpy(slash ? slash : out, "/**"); /* fits */
	return 0;
}

static int note_request(struct suggest *s, json_t *port, const json_t *record)
{
	char pattern[RULES_PATH_MAX + 1];
	json_t *method;

	if (pattern_of(json_tree_text(record, "path"), pattern) < 0) {
		s->unsure++;
		return 0;
	}
	method = child(port, json_tree_text(record, "method"));
	if (json_object_size(method) >= SUGGEST_PATHS_MAX) {
		(void)json_object_clear(method); /* it is an object */
		(void)strcpy(pattern, "/**");	 /* fits */
	}
	if (method && json_object_get(method, "/**"))
		return 0;
	return json_object_set_new(method, pattern,
		json_integer(json_integer_value(json_object_get(method, pattern)) + 1));
}

/* Requests to models, and calls of tools, have records of their own, too. */
static char *model_key(const char *target, const char *port, const char *path)
{
	return str_printf("%s %s %s", target, port, path);
}

static int note_call(struct suggest *s, const char *target, const char *port, const json_t *record)
{
	char pattern[RULES_PATH_MAX + 1];
	char *key;
	int r;

	if (pattern_of(json_tree_text(record, "path"), pattern) < 0)
		return 0;
	key = model_key(target, port, pattern);
	r = key ? suggest_models_note(s->models, key, record) : -ENOMEM;
	free(key);
	return r;
}

static bool says_something(const json_t *record)
{
	const char *kind = json_tree_text(record, "kind"),
		   *verdict = json_tree_text(record, "verdict");

	return (strcmp(kind, "flow") == 0 || strcmp(kind, "request") == 0 ||
		       strcmp(kind, "model") == 0 || strcmp(kind, "tool") == 0) &&
	       *verdict && strcmp(verdict, "denied") != 0 &&
	       !*json_tree_text(record, "direction") &&
	       json_integer_value(json_object_get(record, "port")) > 0;
}

static bool is_request(const json_t *record)
{
	return strcmp(json_tree_text(record, "kind"), "request") == 0;
}

/* Whether a record tells of a model or of tools. Of tools, the request's own record does, too. */
static bool is_call(const json_t *record)
{
	return strcmp(json_tree_text(record, "kind"), "model") == 0 ||
	       strcmp(json_tree_text(record, "kind"), "tool") == 0 ||
	       *json_tree_text(record, "mcp");
}

int suggest_note(struct suggest *s, const json_t *record, struct error *e)
{
	const char *target = *json_tree_text(record, "name") ? json_tree_text(record, "name")
							     : json_tree_text(record, "address");
	char port[PORT_BYTES];
	json_t *of;

	if (!says_something(record) || !*target)
		return 0;
	if (!json_object_get(s->seen, target) && json_object_size(s->seen) >= SUGGEST_TARGETS_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG,
			"it reached more than %d names and addresses: no list of rules is for that",
			SUGGEST_TARGETS_MAX);
	(void)snprintf(port, sizeof(port), "%u",
		(unsigned)json_integer_value(json_object_get(record, "port")) &
			UINT16_MAX); /* fits */
	if (is_call(record) && note_call(s, target, port, record) < 0)
		return no_memory(e);
	of = child(child(s->seen, target), port);
	if (!of || (is_request(record) && note_request(s, of, record) < 0))
		return no_memory(e);
	return 0;
}

/* --- rules --- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_number(const void *a, const void *b)
{
	return atoi(*(const char *const *)a) - atoi(*(const char *const *)b);
}

/* Returns a sorted array of an object's keys; with `numbers` as numbers. Returns NULL when out of
 * memory. */
static json_t *keys(json_t *object, bool numbers)
{
	const char **names = calloc(json_object_size(object) + 1, sizeof(*names)), *name;
	json_t *list = names ? json_array() : NULL, *ignored;
	size_t n = 0;

	json_object_foreach(object, name, ignored) if (names) names[n++] = name;
	if (names)
		qsort(names, n, sizeof(*names), numbers ? by_number : by_text);
	for (size_t i = 0; list && i < n; i++)
		if (json_array_append_new(list,
			    numbers ? json_integer(atoi(names[i])) : json_string(names[i])) < 0) {
			json_decref(list);
			list = NULL;
		}
	free(names);
	return list;
}

/* What is below each first segment; if these are too many, any path. */
static json_t *wider(json_t *paths)
{
	json_t *firsts = json_object(), *ignored, *list;
	const char *path;

	json_object_foreach(paths, path, ignored)
	{
		char text[RULES_PATTERN_MAX + 4];
		int n = (int)strcspn(path + 1, "/") + 1;

		(void)snprintf(text, sizeof(text), path[n] ? "%.*s/**" : "%.*s", n, path);
		(void)json_object_set_new(firsts, text, json_null()); /* counted below */
	}
	list = json_object_size(firsts) <= SUGGEST_PATHS_KEPT && json_object_size(firsts)
		       ? keys(firsts, false)
		       : json_pack("[s]", "/**");
	json_decref(firsts);
	return list;
}

/* Adds a target to the rule whose other conditions are the same, or makes that rule. `by` maps
 * these conditions, as text, to the rule. Takes ownership of rest. */
static int add(json_t *rules, json_t *by, const char *target, json_t *rest)
{
	char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
	json_t *rule = text ? json_object_get(by, text) : NULL, *list;
	uint32_t address;
	const char *member = net_parse_address(target, &address) == 0 ? "net" : "host";
	int r = text ? 0 : -ENOMEM;

	list = json_object_get(rule, member);
	if (r == 0 && (!rule || json_array_size(list) >= RULES_ITEMS_MAX)) {
		rule = json_pack("{s:s, s:[]}", "action", "allow", member);
		r = rule ? json_object_update(rule, rest) : -ENOMEM;
		r = r ? r : json_array_append(rules, rule);
		r = r ? r : json_object_set(by, text, rule);
		json_decref(rule); /* both have it */
		list = json_object_get(rule, member);
	} else if (r == 0 && !list) {
		list = json_array();
		r = json_object_set_new(rule, member, list);
	}
	r = r ? r : json_array_append_new(list, json_string(target));
	free(text);
	json_decref(rest);
	return r;
}

/* A rule for a path whose requests were to models, or called tools. Returns 1, 0 if they were not,
 * or an error. */
static int add_model(struct suggest *s, json_t *rules, json_t *by, const char *target,
	const char *port, const char *path, json_int_t count)
{
	char *key = model_key(target, port, path);
	json_t *rest = json_pack(
		"{s:[i], s:[s], s:[s]}", "ports", atoi(port), "methods", "POST", "paths", path);
	int r = key && rest ? suggest_models_add(s->models, key, count, rest) : -ENOMEM;

	free(key);
	if (r == 1)
		return add(rules, by, target, rest) < 0 ? -ENOMEM : 1;
	json_decref(rest);
	return r;
}

/* Adds rules for requests to models and tools, and takes them out of the paths of POST. */
static int add_models(
	struct suggest *s, json_t *rules, json_t *by, const char *target, const char *port)
{
	json_t *methods = json_object_get(json_object_get(s->seen, target), port),
	       *paths = json_object_get(methods, "POST"), *count;
	const char *path;
	void *next;

	json_object_foreach_safe(paths, next, path, count)
	{
		int r = add_model(s, rules, by, target, port, path, json_integer_value(count));

		if (r < 0)
			return r;
		if (r)
			(void)json_object_del(paths, path); /* it is there */
	}
	if (paths && json_object_size(paths) == 0)
		(void)json_object_del(methods, "POST"); /* likewise */
	return 0;
}

/* Methods with the same paths are one rule. */
static int add_requests(json_t *rules, json_t *by, const char *target, json_t *port, int number)
{
	json_t *groups = json_object(), *paths, *rest;
	const char *method, *text;
	int r = groups ? 0 : -ENOMEM;

	json_object_foreach(port, method, paths)
	{
		json_t *list = json_object_size(paths) > SUGGEST_PATHS_KEPT ? wider(paths)
									    : keys(paths, false);
		char *key = list ? json_dumps(list, JSON_COMPACT) : NULL;
		json_t *group = key ? json_object_get(groups, key) : NULL;

		if (!key)
			r = -ENOMEM;
		else if (group)
			r = json_array_append_new(
				json_object_get(group, "methods"), json_string(method));
		else
			r = json_object_set_new(groups, key,
				json_pack("{s:[i], s:[s], s:O}", "ports", number, "methods", method,
					"paths", list));
		free(key);
		json_decref(list);
		if (r < 0)
			break;
	}
	json_object_foreach(groups, text, rest) if (r == 0) r =
		add(rules, by, target, json_incref(rest));
	json_decref(groups);
	return r;
}

static int add_target(
	struct suggest *s, json_t *rules, json_t *by, const char *target, json_t *ports)
{
	json_t *plain = json_object(), *port, *list;
	const char *number;
	int r = plain ? 0 : -ENOMEM;

	json_object_foreach(ports, number, port)
	{
		bool requests = json_object_size(port);

		if (r == 0 && requests)
			r = add_models(s, rules, by, target, number);
		if (r == 0 && requests)
			r = add_requests(rules, by, target, port, atoi(number));
		else if (r == 0)
			r = json_object_set_new(plain, number, json_null());
	}
	if (r == 0 && json_object_size(plain)) {
		list = json_object_size(plain) <= RULES_PORTS_MAX ? keys(plain, true) : NULL;
		r = add(rules, by, target, json_pack("{s:o*}", "ports", list));
	}
	json_decref(plain);
	return r;
}

int suggest_policy(struct suggest *s, json_t **ret, struct error *e)
{
	json_t *rules = json_array(), *by = json_object(), *targets = keys(s->seen, false);
	int r = rules && by && targets ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < json_array_size(targets); i++) {
		const char *target = json_string_value(json_array_get(targets, i));

		r = add_target(s, rules, by, target, json_object_get(s->seen, target));
	}
	if (r == 0)
		*ret = json_pack("{s:i, s:s, s:O}", "version", RULES_VERSION, "default", "deny",
			"rules", rules);
	json_decref(rules);
	json_decref(by);
	json_decref(targets);
	if (r < 0 || !*ret)
		return no_memory(e);
	r = rules_check(*ret, "the policy that it needs", e);
	if (r < 0)
		json_decref(*ret);
	return r;
}
