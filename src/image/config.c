#include "image/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

int config_init(struct image_config *c)
{
	*c = (struct image_config){.cpus = 2, .memory_mb = 512, .disk_mb = 1024};
	c->description = strdup("");
	c->user = strdup("user");
	c->workdir = strdup("");
	c->network = strdup("");
	c->start_command = strdup("");
	c->ready_command = strdup("");
	c->warm_command = strdup("");
	c->entry_command = strdup("");
	c->env = calloc(CONFIG_ENV_MAX, sizeof(*c->env));
	if (c->description && c->user && c->workdir && c->network && c->start_command &&
		c->ready_command && c->warm_command && c->entry_command && c->env)
		return 0;
	config_done(c);
	return -ENOMEM;
}

void config_done(struct image_config *c)
{
	for (size_t i = 0; i < c->env_count; i++)
		free(c->env[i]);
	free(c->env);
	for (size_t i = 0; i < c->trigger_count; i++)
		free(c->triggers[i]);
	free(c->triggers);
	free(c->description);
	free(c->user);
	free(c->workdir);
	free(c->network);
	free(c->start_command);
	free(c->ready_command);
	free(c->warm_command);
	free(c->entry_command);
	*c = (struct image_config){0};
}

int config_set_text(char **slot, const char *value)
{
	char *copy;

	if (strlen(value) > CONFIG_TEXT_MAX)
		return -E2BIG;
	for (const char *p = value; *p; p++)
		if (iscntrl((unsigned char)*p) && *p != '\n' && *p != '\t')
			return -EINVAL;
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	free(*slot);
	*slot = copy;
	return 0;
}

static bool is_env_name(const char *s, size_t n)
{
	if (n == 0 || isdigit((unsigned char)s[0]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_')
			return false;
	return true;
}

int config_add_env(struct image_config *c, const char *entry)
{
	size_t name = strcspn(entry, "=");
	char *copy = NULL;
	int r;

	if (entry[name] != '=' || !is_env_name(entry, name))
		return -EINVAL;
	r = config_set_text(&copy, entry);
	if (r < 0)
		return r;
	for (size_t i = 0; i < c->env_count; i++)
		if (strncmp(c->env[i], entry, name + 1) == 0) {
			free(c->env[i]);
			c->env[i] = copy;
			return 0;
		}
	if (c->env_count == CONFIG_ENV_MAX) {
		free(copy);
		return -E2BIG;
	}
	c->env[c->env_count++] = copy;
	return 0;
}

int config_add_trigger(struct image_config *c, const char *instruction)
{
	char **all, *copy = NULL;
	int r;

	if (c->trigger_count == CONFIG_TRIGGERS_MAX)
		return -E2BIG;
	r = config_set_text(&copy, instruction);
	if (r < 0)
		return r;
	all = reallocarray(c->triggers, c->trigger_count + 1, sizeof(*all));
	if (!all) {
		free(copy);
		return -ENOMEM;
	}
	c->triggers = all;
	all[c->trigger_count++] = copy;
	return 0;
}

int config_copy(const struct image_config *from, struct image_config *to)
{
	int r = config_init(to);

	if (r < 0)
		return r;
	to->cpus = from->cpus;
	to->memory_mb = from->memory_mb;
	to->disk_mb = from->disk_mb;
	r = config_set_text(&to->description, from->description);
	r = r < 0 ? r : config_set_text(&to->user, from->user);
	r = r < 0 ? r : config_set_text(&to->workdir, from->workdir);
	r = r < 0 ? r : config_set_text(&to->network, from->network);
	r = r < 0 ? r : config_set_text(&to->start_command, from->start_command);
	r = r < 0 ? r : config_set_text(&to->ready_command, from->ready_command);
	r = r < 0 ? r : config_set_text(&to->warm_command, from->warm_command);
	r = r < 0 ? r : config_set_text(&to->entry_command, from->entry_command);
	for (size_t i = 0; r == 0 && i < from->env_count; i++)
		r = config_add_env(to, from->env[i]);
	for (size_t i = 0; r == 0 && i < from->trigger_count; i++)
		r = config_add_trigger(to, from->triggers[i]);
	if (r < 0)
		config_done(to);
	return r;
}

static bool is_user_name(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n > CONFIG_USER_MAX || !(islower((unsigned char)*s) || *s == '_'))
		return false;
	for (; *s; s++)
		if (!islower((unsigned char)*s) && !isdigit((unsigned char)*s) && !strchr("_-", *s))
			return false;
	return true;
}

int config_check(const struct image_config *c, struct error *e)
{
	if (c->cpus < 1 || c->cpus > CONFIG_CPUS_MAX)
		return error_set(
			e, ERROR_LIMIT, EINVAL, "`cpus` must be from 1 to %d", CONFIG_CPUS_MAX);
	if (c->memory_mb < CONFIG_MEMORY_MB_MIN || c->memory_mb > CONFIG_MEMORY_MB_MAX)
		return error_set(e, ERROR_LIMIT, EINVAL, "`memory` must be from %dM to %dG",
			CONFIG_MEMORY_MB_MIN, CONFIG_MEMORY_MB_MAX >> 10);
	if (c->disk_mb < CONFIG_DISK_MB_MIN || c->disk_mb > CONFIG_DISK_MB_MAX)
		return error_set(e, ERROR_LIMIT, EINVAL, "`disk` must be from %dM to %dG",
			CONFIG_DISK_MB_MIN, CONFIG_DISK_MB_MAX >> 10);
	if (!is_user_name(c->user))
		return error_set(e, ERROR_USAGE, EINVAL,
			"`user` must be 1 to %d of a-z 0-9 _ -, beginning with a letter",
			CONFIG_USER_MAX);
	if (*c->workdir && *c->workdir != '/')
		return error_set(e, ERROR_USAGE, EINVAL, "`workdir` must be an absolute path");
	return 0;
}

int config_json_add_string(json_t *object, const char *key, const char *value)
{
	return json_object_set_new(object, key, json_string(value)) < 0 ? -ENOMEM : 0;
}

int config_json_add_u64(json_t *object, const char *key, uint64_t value)
{
	return json_object_set_new(object, key, json_integer((json_int_t)value)) < 0 ? -ENOMEM : 0;
}

/* Adds a key with a list of strings; 0 or -ENOMEM. */
static int add_list(json_t *object, const char *key, char *const *items, size_t n)
{
	json_t *list = json_array();
	int bad = !list;

	for (size_t i = 0; !bad && i < n; i++)
		bad = json_array_append_new(list, json_string(items[i])) < 0;
	bad = bad || json_object_set(object, key, list) < 0;
	json_decref(list);
	return bad ? -ENOMEM : 0;
}

int config_to_json(const struct image_config *c, json_t *o)
{
	int bad = config_json_add_string(o, "description", c->description) < 0;
	bad = bad || config_json_add_u64(o, "cpus", c->cpus) < 0;
	bad = bad || config_json_add_u64(o, "memory_mb", c->memory_mb) < 0;
	bad = bad || config_json_add_u64(o, "disk_mb", c->disk_mb) < 0;
	bad = bad || config_json_add_string(o, "user", c->user) < 0;
	bad = bad || config_json_add_string(o, "workdir", c->workdir) < 0;
	if (!bad && *c->network) /* older versions know no such member */
		bad = config_json_add_string(o, "network", c->network) < 0;
	if (!bad && *c->entry_command)
		bad = config_json_add_string(o, "entry_command", c->entry_command) < 0;
	bad = bad || config_json_add_string(o, "start_command", c->start_command) < 0;
	bad = bad || config_json_add_string(o, "ready_command", c->ready_command) < 0;
	bad = bad || config_json_add_string(o, "warm_command", c->warm_command) < 0;
	if (!bad && c->trigger_count)
		bad = add_list(o, "onbuild", c->triggers, c->trigger_count) < 0;
	bad = bad || add_list(o, "env", c->env, c->env_count) < 0;
	return bad ? -ENOMEM : 0;
}

int config_json_string(const json_t *object, const char *key, char **ret)
{
	const json_t *v = json_object_get(object, key);
	char *slot = NULL;
	int r;

	if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
		return -EINVAL;
	r = config_set_text(&slot, json_string_value(v));
	if (r < 0)
		return r;
	free(*ret);
	*ret = slot;
	return 0;
}

int config_json_u64(const json_t *object, const char *key, uint64_t max, uint64_t *ret)
{
	const json_t *v = json_object_get(object, key);

	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
		(uint64_t)json_integer_value(v) > max)
		return -EINVAL;
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

static int json_u32(const json_t *o, const char *key, uint32_t *ret)
{
	uint64_t v;
	int r = config_json_u64(o, key, UINT32_MAX, &v);

	if (r == 0)
		*ret = (uint32_t)v;
	return r;
}

static int list_from_json(
	const json_t *list, struct image_config *c, int (*add)(struct image_config *, const char *))
{
	int r = json_is_array(list) ? 0 : -EINVAL;

	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const json_t *v = json_array_get(list, i);

		r = json_is_string(v) ? add(c, json_string_value(v)) : -EINVAL;
	}
	return r;
}

/* Settings that older versions do not write. */
static int optional_from_json(const json_t *o, struct image_config *c, struct error *e)
{
	const json_t *triggers = json_object_get(o, "onbuild");
	const char *bad = NULL;

	if (json_object_get(o, "network") && config_json_string(o, "network", &c->network) < 0)
		bad = "network";
	else if (json_object_get(o, "entry_command") &&
		 config_json_string(o, "entry_command", &c->entry_command) < 0)
		bad = "entry_command";
	else if (triggers && list_from_json(triggers, c, config_add_trigger) < 0)
		bad = "onbuild";
	return bad ? error_set(e, ERROR_BAD_IMAGE, EINVAL, "\"%s\" is unusable", bad) : 0;
}

int config_from_json(const json_t *o, struct image_config *c, struct error *e)
{
	const struct {
		const char *key;
		char **text;
		uint32_t *number;
	} fields[] = {{"description", &c->description, NULL}, {"cpus", NULL, &c->cpus},
		{"memory_mb", NULL, &c->memory_mb}, {"disk_mb", NULL, &c->disk_mb},
		{"user", &c->user, NULL}, {"workdir", &c->workdir, NULL},
		{"start_command", &c->start_command, NULL},
		{"ready_command", &c->ready_command, NULL},
		{"warm_command", &c->warm_command, NULL}};

	if (optional_from_json(o, c, e) < 0)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		int r = fields[i].text ? config_json_string(o, fields[i].key, fields[i].text)
				       : json_u32(o, fields[i].key, fields[i].number);

		if (r < 0)
			return error_set(e, ERROR_BAD_IMAGE, -r, "\"%s\" is missing or unusable",
				fields[i].key);
	}
	if (list_from_json(json_object_get(o, "env"), c, config_add_env) < 0)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL, "\"env\" is missing or unusable");
	return config_check(c, e);
}

static const char *unknown_key(json_t *o, const char *const *keys)
{
	const char *key;
	json_t *v;

	json_object_foreach(o, key, v)
	{
		const char *const *k = keys;

		while (*k && strcmp(*k, key) != 0)
			k++;
		if (!*k)
			return key;
	}
	return NULL;
}

json_t *config_json_parse(
	const char *text, size_t len, const char *const *keys, const char *what, struct error *e)
{
	json_error_t je;
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
	const char *unknown;

	if (!json_is_object(o)) {
		(void)error_set(e, ERROR_BAD_IMAGE, EINVAL, "%s is not JSON of ours: %s", what,
			o ? "not an object" : je.text);
		json_decref(o);
		return NULL;
	}
	unknown = unknown_key(o, keys);
	if (unknown) {
		(void)error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"%s has the unknown key \"%.60s\": it may be of a newer Mayfly", what,
			unknown);
		json_decref(o);
		return NULL;
	}
	return o;
}
