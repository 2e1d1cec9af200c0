#include "cli/agents/secrets.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/agents/agents.h"
#include "cli/binding_option.h"
#include "cli/json.h"

/* Well-known variables, and the hosts that their values are for. */
static const char *const known[][2] = {
	{"ANTHROPIC_API_KEY", "api.anthropic.com"},
	{"OPENAI_API_KEY", "api.openai.com"},
};

static const char *known_hosts(const char *variable)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i][0], variable) == 0)
			return known[i][1];
	return NULL;
}

static int keep_value(const char *name, const char *value, struct error *e)
{
	_cleanup_free_ char *path = str_printf("/secrets/%s", name);
	json_t *body = json_object();
	int r = path ? json_add_text(body, "value", value, "the value", e)
		     : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");

	r = r ? r : agents_call("POST", path, body, NULL, e);
	if (r < 0 && e->code == ERROR_NOT_FOUND) {
		error_clear(e);
		(void)json_object_set_new(body, "name", json_string(name)); /* or it is missed */
		r = agents_call("POST", "/secrets", body, NULL, e);
	}
	json_decref(body);
	return r;
}

static char *name_of(const char *agent, const char *variable)
{
	char *name = str_printf("%s-%s", agent, variable);

	for (char *p = name; p && *p; p++)
		*p = (char)tolower((unsigned char)*p);
	return name;
}

/* hosts NULL: the program gets the value. */
static int bind(
	json_t *all, const char *variable, const char *secret, const char *hosts, struct error *e)
{
	_cleanup_free_ char *copy = hosts ? strdup(hosts) : NULL;
	json_t *one = copy ? json_pack("{s:s, s:o}", "secret", secret, "hosts", binding_hosts(copy))
		      : hosts ? NULL
			      : json_pack("{s:s, s:b}", "secret", secret, "plain", true);

	return one && json_object_set_new(all, variable, one) == 0
		       ? 0
		       : error_set(e, ERROR_USAGE, EINVAL, "--secret must be valid UTF-8");
}

/* Whether a name needs no encoding in a path. The daemon checks the rest. */
static bool may_be_name(const char *s)
{
	while (isalnum((unsigned char)*s) || *s == '_' || *s == '-')
		s++;
	return !*s;
}

/* Handles VARIABLE=NAME@HOSTS. A value with '@' looks the same, so NAME must be an existing secret.
 * It may also be part of a password, so no error shows it. */
static int bind_existing(
	json_t *all, const char *variable, const char *name, const char *hosts, struct error *e)
{
	_cleanup_free_ char *path = str_printf("/secrets/%s", name);
	json_t *secret = NULL;
	int r = path ? 0 : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");

	if (r == 0 && *name && may_be_name(name))
		r = agents_call("GET", path, NULL, &secret, e);
	else if (r == 0)
		r = error_set(e, ERROR_NOT_FOUND, ENOENT, "no name");
	json_decref(secret);
	if (r == 0)
		return bind(all, variable, name, hosts, e);
	if (e->code != ERROR_NOT_FOUND)
		return r;
	error_clear(e);
	return error_set(e, ERROR_USAGE, ENOENT,
		"--secret %.64s: there is no secret of the name before '@'. To give a value, set "
		"the variable %.64s here, and --secret %.64s@HOST takes it from there",
		variable, variable, variable);
}

/* Stores a value, that of this process's variable if it is NULL, and binds it. */
static int store_and_bind(json_t *all, const char *agent, const char *variable, const char *value,
	const char *hosts, struct error *e)
{
	const char *option = hosts ? "--secret" : "--plain-secret",
		   *secret = value ? value : getenv(variable);
	_cleanup_free_ char *name = NULL;

	if (!secret)
		return error_set(e, ERROR_USAGE, ENOENT,
			"%s %.64s: this variable is not set, so there is no value to take", option,
			variable);
	name = name_of(agent, variable);
	if (!name)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (keep_value(name, secret, e) < 0) {
		error_prefix(e, "%s %.64s", option, variable);
		return -EINVAL;
	}
	return bind(all, variable, name, hosts, e);
}

/* Handles a variable with an optional value and optional hosts. */
static int add(json_t *all, const char *agent, char *text, struct error *e)
{
	char *value = strchr(text, '='), *hosts = strchr(value ? value : text, '@');
	const char *where;

	if (value)
		*value++ = '\0';
	if (hosts)
		*hosts++ = '\0';
	if (value && hosts)
		return bind_existing(all, text, value, hosts, e);
	where = hosts ? hosts : known_hosts(text);
	if (!*text || !where)
		return error_set(e, ERROR_USAGE, EINVAL,
			"--secret %.64s: name the hosts that may get it, as in "
			"%.64s@api.example.com; if the program must see the value, use "
			"--plain-secret",
			text, text);
	return store_and_bind(all, agent, text, value, where, e);
}

/* Handles a variable with an optional value. */
static int add_plain(json_t *all, const char *agent, char *text, struct error *e)
{
	char *value = strchr(text, '=');

	if (value)
		*value++ = '\0';
	if (!*text)
		return error_set(
			e, ERROR_USAGE, EINVAL, "--plain-secret: give VARIABLE or VARIABLE=VALUE");
	return store_and_bind(all, agent, text, value, NULL, e);
}

static int add_list(json_t *all, const char *agent, const struct option_list *list,
	int (*add_one)(json_t *all, const char *agent, char *text, struct error *e),
	struct error *e)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < list->count; i++) {
		char *copy = strdup(list->items[i]);
		size_t n = copy ? strlen(copy) : 0;

		r = copy ? add_one(all, agent, copy, e)
			 : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
		if (copy)
			OPENSSL_cleanse(copy, n);
		free(copy);
	}
	return r;
}

int agent_secrets_read(const char *agent, const struct option_list *list,
	const struct option_list *plain, json_t **ret, struct error *e)
{
	json_t *all = list->count || plain->count ? json_object() : NULL;
	int r = add_list(all, agent, list, add, e);

	if (r == 0)
		r = add_list(all, agent, plain, add_plain, e);
	if (r == 0)
		*ret = all;
	else
		json_decref(all);
	return r;
}
