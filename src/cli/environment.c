#include "cli/environment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static int out_of_memory(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

static int add(struct environment *env, const char *item, struct error *e)
{
	const char *value;
	char *entry;

	if (*item == '\0' || *item == '=')
		return error_set(
			e, ERROR_USAGE, EINVAL, "--env '%s': expected NAME=VALUE or NAME", item);
	value = strchr(item, '=') ? NULL : getenv(item);
	if (!value && !strchr(item, '='))
		return 0; /* not set here, so not there either */
	entry = value ? str_printf("%s=%s", item, value) : strdup(item);
	if (!entry)
		return out_of_memory(e);
	env->items[env->count++] = entry;
	return 0;
}

int environment_read(const struct option_list *list, struct environment *ret, struct error *e)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < list->count; i++)
		r = add(ret, list->items[i], e);
	return r;
}

void environment_done(struct environment *env)
{
	for (unsigned i = 0; i < env->count; i++)
		free(env->items[i]);
	env->count = 0;
}

static int set_pair(json_t *object, const char *item)
{
	const char *equals = strchr(item, '=');
	char *name = strndup(item, (size_t)(equals - item));
	int r = name ? json_object_set_new(object, name, json_string(equals + 1)) : -1;

	free(name);
	return r;
}

json_t *environment_json(const struct environment *env)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < env->count; i++)
		if (set_pair(object, env->items[i]) < 0) {
			json_decref(object);
			return NULL;
		}
	return object;
}

int environment_pairs(
	const struct option_list *list, const char *option, json_t **ret, struct error *e)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < list->count; i++) {
		const char *item = list->items[i];

		if (*item != '=' && strchr(item, '=') && set_pair(object, item) == 0)
			continue;
		json_decref(object);
		return error_set(
			e, ERROR_USAGE, EINVAL, "%s '%s': expected NAME=VALUE", option, item);
	}
	*ret = object;
	return 0;
}
