#include "proto/agent_settings.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

#define MIB (UINT64_C(1) << 20)

static int invalid(struct error *e, const char *name, const char *what)
{
	return error_set(e, ERROR_USAGE, EINVAL, "%s must be %s", name, what);
}

/* --- numbers --- */

/* 0, or -EINVAL. */
static int take_mb(const json_t *v, uint32_t *ret)
{
	uint64_t n = 0;
	int r = 0;

	if (json_is_string(v))
		r = str_parse_bytes(json_string_value(v), MIB, &n);
	else if (json_is_integer(v) && json_integer_value(v) > 0)
		n = (uint64_t)json_integer_value(v) <= UINT32_MAX
			    ? (uint64_t)json_integer_value(v) * MIB
			    : 0;
	if (r < 0 || n < MIB || n / MIB > UINT32_MAX)
		return -EINVAL;
	*ret = (uint32_t)(n / MIB);
	return 0;
}

static int take_seconds(const json_t *v, uint32_t *ret)
{
	uint64_t ns = 0;
	int r = 0;

	if (json_is_string(v))
		r = str_parse_duration_ns(json_string_value(v), &ns);
	else if (json_is_integer(v) && json_integer_value(v) > 0 &&
		 json_integer_value(v) <= AGENT_SETTING_TIMEOUT_MAX_S)
		ns = (uint64_t)json_integer_value(v) * NS_PER_S;
	if (r < 0 || ns < NS_PER_S || ns % NS_PER_S || ns > AGENT_SETTING_TIMEOUT_MAX_S * NS_PER_S)
		return -EINVAL;
	*ret = (uint32_t)(ns / NS_PER_S);
	return 0;
}

static int take_count(const json_t *v, uint32_t *ret)
{
	json_int_t n = json_integer_value(v);

	if (!json_is_integer(v) || n < 1 || n > AGENT_SETTING_CONCURRENCY_MAX)
		return -EINVAL;
	*ret = (uint32_t)n;
	return 0;
}

/* --- objects --- */

static bool is_variable(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
				      "0123456789";

	return *name && strlen(name) <= AGENT_SETTING_NAME_MAX &&
	       strspn(name, letters) == strlen(name) && (*name < '0' || *name > '9');
}

static bool fits(const json_t *v, size_t max)
{
	size_t n = json_dumpb(v, NULL, 0, JSON_COMPACT);

	return n && n <= max;
}

bool agent_settings_fits_snapshot(const char *name, const char *value)
{
	if (strlen(name) + 1 + strlen(value) > AGENT_SETTING_ENTRY_MAX)
		return false;
	for (; *value; value++)
		if (((unsigned char)*value < ' ' && *value != '\n' && *value != '\t') ||
			*value == 0x7f)
			return false;
	return true;
}

static int check_env(const json_t *env, struct error *e)
{
	json_t *object = (json_t *)(uintptr_t)env; /* only read */
	const char *name;
	const json_t *v;

	if (!json_is_object(env) || !fits(env, AGENT_SETTING_ENV_MAX))
		return invalid(e, "env", "an object of texts, at most 16 KiB in all");
	json_object_foreach(object, name, v)
	{
		if (!is_variable(name) || !json_is_string(v))
			return error_set(e, ERROR_USAGE, EINVAL,
				"env: %.64s: a name has letters, digits and _, a value is a text",
				name);
	}
	return 0;
}

bool agent_settings_is_plain(const json_t *secret)
{
	return json_is_true(json_object_get(secret, "plain"));
}

json_t *agent_settings_hidden(const json_t *secrets)
{
	json_t *object = (json_t *)(uintptr_t)secrets, *hidden = json_object(),
	       *one; /* only read */
	const char *name;
	int r = hidden ? 0 : -1;

	json_object_foreach(object, name, one) if (r == 0 && !agent_settings_is_plain(one)) r =
		json_object_set(hidden, name, one);
	if (r == 0)
		return hidden;
	json_decref(hidden);
	return NULL;
}

/* It has hosts or is plain. */
static bool is_secret(const json_t *v)
{
	const json_t *hosts = json_object_get(v, "hosts"), *plain = json_object_get(v, "plain");

	if (!json_is_string(json_object_get(v, "secret")) || (plain && !json_is_boolean(plain)))
		return false;
	return json_is_true(plain) ? !hosts : json_is_array(hosts);
}

/* What the members mean is checked where sandboxes are made. */
static int check_secrets(const json_t *secrets, struct error *e)
{
	json_t *object = (json_t *)(uintptr_t)secrets; /* only read */
	const char *name;
	const json_t *v;

	if (!json_is_object(secrets) || !fits(secrets, AGENT_SETTING_SECRETS_MAX) ||
		json_object_size(secrets) > AGENT_SETTING_SECRETS)
		return invalid(e, "secrets", "an object of at most 16 variables and 8 KiB");
	json_object_foreach(object, name, v)
	{
		if (!is_variable(name) || !is_secret(v))
			return error_set(e, ERROR_USAGE, EINVAL,
				"secrets: %.64s must be {\"secret\": NAME, \"hosts\": [HOST, ...]} "
				"or "
				"{\"secret\": NAME, \"plain\": true}",
				name);
	}
	return 0;
}

/* What it means is checked where sandboxes are made, too. */
static int check_object(const char *name, const json_t *v, struct error *e)
{
	return json_is_object(v) && fits(v, AGENT_SETTING_NETWORK_MAX)
		       ? 0
		       : invalid(e, name, "an object of at most 32 KiB");
}

/* --- all of it --- */

static bool is_one_of(const json_t *v, const char *const *words)
{
	const char *s = json_string_value(v);

	for (; s && *words; words++)
		if (strcmp(s, *words) == 0)
			return true;
	return false;
}

bool agent_settings_is_command(const char *s)
{
	if (!*s || strlen(s) > AGENT_SETTING_COMMAND_MAX)
		return false;
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return false;
	return true;
}

static int check_member(const char *name, const json_t *v, struct error *e)
{
	static const char *const runtimes[] = {"node-20", "python-3.12", "deno", "base", NULL};
	static const char *const protocols[] = {"stdin", "http", NULL};
	static const char *const starts[] = {"warm", "cold", NULL};
	uint32_t n;

	if (strcmp(name, "env") == 0)
		return check_env(v, e);
	if (strcmp(name, "secrets") == 0)
		return check_secrets(v, e);
	if (strcmp(name, "network") == 0 || strcmp(name, "policy") == 0)
		return check_object(name, v, e);
	if (strcmp(name, "allow_internet_access") == 0)
		return json_is_boolean(v) ? 0 : invalid(e, name, "true or false");
	if (strcmp(name, "runtime") == 0)
		return is_one_of(v, runtimes)
			       ? 0
			       : invalid(e, name, "node-20, python-3.12, deno or base");
	if (strcmp(name, "protocol") == 0)
		return is_one_of(v, protocols) ? 0 : invalid(e, name, "stdin or http");
	if (strcmp(name, "start") == 0)
		return is_one_of(v, starts) ? 0 : invalid(e, name, "warm or cold");
	if (strcmp(name, "entry") == 0 || strcmp(name, "install") == 0)
		return json_is_string(v) && agent_settings_is_command(json_string_value(v))
			       ? 0
			       : invalid(e, name, "a command of one line, at most 4096 bytes");
	if (strcmp(name, "cpus") == 0)
		return take_count(v, &n) == 0 ? 0 : invalid(e, name, "a number");
	if (strcmp(name, "concurrency") == 0)
		return take_count(v, &n) == 0 ? 0 : invalid(e, name, "a number from 1 to 1024");
	if (strcmp(name, "memory") == 0 || strcmp(name, "disk") == 0)
		return take_mb(v, &n) == 0 ? 0 : invalid(e, name, "a number of MB, or as \"2G\"");
	if (strcmp(name, "timeout") == 0)
		return take_seconds(v, &n) == 0
			       ? 0
			       : invalid(e, name, "whole seconds, or as \"120s\"; a day at most");
	return error_set(e, ERROR_USAGE, EINVAL, "'%.64s' is no setting of an agent", name);
}

int agent_settings_check(const json_t *settings, struct error *e)
{
	json_t *object = (json_t *)(uintptr_t)settings; /* only read */
	const char *name;
	const json_t *v;
	int r = 0;

	if (!json_is_object(settings))
		return error_set(e, ERROR_USAGE, EINVAL, "the settings must be an object");
	json_object_foreach(object, name, v)
	{
		if (r == 0)
			r = check_member(name, v, e);
	}
	return r;
}

/* What a sandbox may reach is not put together from two places. */
static void drop_network(json_t *added, const json_t *into)
{
	static const char *const names[] = {"network", "policy", "allow_internet_access"};
	bool any = false;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		any = any || json_object_get(into, names[i]);
	for (size_t i = 0; any && i < ARRAY_SIZE(names); i++)
		(void)json_object_del(added, names[i]); /* it may be absent */
}

int agent_settings_merge(json_t *into, const json_t *from)
{
	static const char *const objects[] = {"env", "secrets"};
	json_t *added = json_copy((json_t *)(uintptr_t)from); /* only read */
	int r = added ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(objects) && r == 0; i++) {
		json_t *have = json_object_get(into, objects[i]),
		       *more = json_object_get(from, objects[i]);

		if (have && more)
			r = json_object_update_missing(have, more);
	}
	drop_network(added, into);
	if (r == 0)
		r = json_object_update_missing(into, added);
	json_decref(added);
	return r < 0 ? -ENOMEM : 0;
}

struct agent_sizes agent_settings_sizes(const json_t *settings)
{
	struct agent_sizes s = {AGENT_SETTING_CPUS, AGENT_SETTING_MEMORY_MB, AGENT_SETTING_DISK_MB,
		AGENT_SETTING_TIMEOUT_S, AGENT_SETTING_CONCURRENCY};

	(void)take_count(json_object_get(settings, "cpus"), &s.cpus); /* else the defaults stay */
	(void)take_mb(json_object_get(settings, "memory"), &s.memory_mb);
	(void)take_mb(json_object_get(settings, "disk"), &s.disk_mb);
	(void)take_seconds(json_object_get(settings, "timeout"), &s.timeout_s);
	(void)take_count(json_object_get(settings, "concurrency"), &s.concurrency);
	return s;
}
