#include "network/bindings.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "network/secrets.h"
#include "policy/intercept.h"
#include "policy/network_target.h"
#include "policy/placeholder.h"
#include "policy/seal.h"

static int bad(struct error *e, const char *variable, const char *reason)
{
	return error_set(e, ERROR_USAGE, EINVAL, "secrets['%.64s']: %s", variable, reason);
}

static bool is_variable(const char *name)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

	return *name && !(*name >= '0' && *name <= '9') && strlen(name) <= 128 &&
	       strspn(name, letters) == strlen(name);
}

static int take_host(const char *variable, const json_t *given, json_t *hosts, struct error *e)
{
	const char *text = json_string_value(given), *reason = "a host must be a string";
	struct network_target t;

	if (!text || network_target_parse(text, false, &t, &reason) < 0)
		return bad(e, variable, reason);
	if (!t.host[0] || strcmp(t.host, "*") == 0)
		return bad(e, variable, "a host must be a name, or *. and a name");
	return json_array_append_new(hosts, json_string(t.host)) < 0 ? -ENOMEM : 0;
}

static int take_hosts(
	const char *variable, const json_t *given, json_t *hosts, size_t *count, struct error *e)
{
	size_t n = json_array_size(given);
	int r = 0;

	*count += n;
	if (n == 0)
		return bad(e, variable, "hosts must be an array of names, at least one");
	if (*count > INTERCEPT_BOUND_HOSTS_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "secrets has more than %d hosts",
			INTERCEPT_BOUND_HOSTS_MAX);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = take_host(variable, json_array_get(given, i), hosts, e);
	return r;
}

static int value_of(struct fleet *f, const char *key_id, const char *variable, const char *name,
	char **ret, struct error *e)
{
	struct error why = {0};
	int r = secret_value(f, key_id, name, ret, &why);

	if (r < 0 && why.code == ERROR_NOT_FOUND)
		return error_set(e, ERROR_USAGE, EINVAL,
			"secrets['%.64s']: there is no secret '%s': make it first", variable, name);
	return r < 0 ? error_set(e, why.code, why.err, "%s", why.message) : 0;
}

int bindings_value(struct fleet *f, const char *key_id, const char *variable, const json_t *given,
	char **ret, struct error *e)
{
	const char *secret = json_string_value(json_object_get(given, "secret"));
	char name[STORE_SECRET_NAME_MAX + 1];

	if (!secret || secret_take_name(secret, name, NULL) < 0)
		return bad(e, variable, "secret must be the name of a secret");
	return value_of(f, key_id, variable, name, ret, e);
}

/* Its placeholder, malloc'ed: the given one, or a new one for NULL. The secret must be there. */
static int make_placeholder(struct fleet *f, const char *key_id, const char *variable,
	const char *name, const char *given, char **ret, struct error *e)
{
	_cleanup_(secret_freep) char *value = NULL;
	int r = value_of(f, key_id, variable, name, &value, e);

	if (r < 0)
		return r;
	if (given) {
		*ret = strdup(given);
		return *ret ? 0 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	r = placeholder_make(value, ret);
	if (r == -ENODATA)
		return bad(e, variable,
			"the secret is too short for a variable: its placeholder needs at least 16 "
			"letters and digits");
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "a placeholder") : 0;
}

/* What all variables of one creation share. */
struct taking {
	struct fleet *fleet;
	const char *key_id;
	const json_t *placeholders;
	json_t *env, *all;
	size_t hosts;
};

static int take_one(struct taking *t, const char *variable, const json_t *given, struct error *e)
{
	const char *placeholder_given =
		json_string_value(json_object_get(t->placeholders, variable));
	const char *secret = json_string_value(json_object_get(given, "secret"));
	char name[STORE_SECRET_NAME_MAX + 1];
	_cleanup_free_ char *placeholder = NULL;
	json_t *hosts = json_array();
	int r = 0;

	if (!is_variable(variable))
		r = bad(e, variable, "the name of a variable must be of letters, digits and _");
	else if (json_object_get(t->env, variable))
		r = bad(e, variable, "envVars has a variable of this name, too");
	else if (!secret || secret_take_name(secret, name, NULL) < 0)
		r = bad(e, variable, "secret must be the name of a secret");
	if (r == 0)
		r = take_hosts(variable, json_object_get(given, "hosts"), hosts, &t->hosts, e);
	if (r == 0)
		r = make_placeholder(
			t->fleet, t->key_id, variable, name, placeholder_given, &placeholder, e);
	if (r == 0 && (json_object_set_new(t->env, variable, json_string(placeholder)) < 0 ||
			      json_object_set_new(t->all, variable,
				      json_pack("{s:s, s:O}", "secret", name, "hosts", hosts)) < 0))
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	json_decref(hosts);
	return r;
}

int bindings_make(struct fleet *f, const char *key_id, json_t *given, const json_t *placeholders,
	json_t *env, json_t **ret, struct error *e)
{
	struct taking t = {.fleet = f, .key_id = key_id, .placeholders = placeholders, .env = env};
	json_t *one;
	const char *variable;
	int r = 0;

	if (!json_is_object(given))
		return error_set(e, ERROR_USAGE, EINVAL, "secrets must be an object");
	if (json_object_size(given) > INTERCEPT_BINDINGS_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "secrets has more than %d variables",
			INTERCEPT_BINDINGS_MAX);
	t.all = json_object();
	json_object_foreach(given, variable, one) if (r == 0) r = take_one(&t, variable, one, e);
	if (r == 0) {
		*ret = t.all;
		return 0;
	}
	json_decref(t.all);
	return r;
}
