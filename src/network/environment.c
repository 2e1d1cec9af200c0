#include "network/environment.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "fleet/fleet.h"
#include "network/interception.h"
#include "proto/json_tree.h"
#include "sandbox/trust_bundle.h"

enum { OURS_MAX = 4 + TRUST_VARIABLES }; /* with the list's end */

void environment_free(char **env)
{
	for (char **p = env; p && *p; p++)
		free(*p);
	free(env);
}

static bool add_entry(char **env, size_t *n, char *entry)
{
	size_t name;

	if (!entry)
		return false;
	name = strcspn(entry, "=") + 1;
	for (size_t k = 0; k < *n; k++)
		if (strncmp(env[k], entry, name) == 0) {
			free(env[k]);
			env[k] = entry;
			return true;
		}
	env[(*n)++] = entry;
	return true;
}

static const char *trust_path(size_t k)
{
	return trust_variables[k].all ? TRUST_BUNDLE : TRUST_FILE;
}

static bool add_trust(char **env, size_t *n, const struct instance *i)
{
	const char *root = i->fleet->options.backend->guest_root;
	bool ok = true;

	if (!root || !interception_has_guest(i))
		return true;
	for (size_t k = 0; ok && k < TRUST_VARIABLES; k++)
		ok = add_entry(env, n,
			str_printf("%s=%s%s", trust_variables[k].name, root, trust_path(k)));
	return ok;
}

int environment_add_trust(json_t *env)
{
	int r = 0;

	for (size_t k = 0; r == 0 && k < TRUST_VARIABLES; k++)
		if (!json_object_get(env, trust_variables[k].name))
			r = json_object_set_new(
				env, trust_variables[k].name, json_string(trust_path(k)));
	return r < 0 ? -ENOMEM : 0;
}

/* Later sources win: the template's, then ours, then the request's. */
char **environment_of(const struct instance *i)
{
	json_t *own = json_tree_stored(i->env_json), *value;
	size_t n = 0, count = 0;
	const char *key;
	char **env;
	bool ok;

	for (char **p = i->sandbox.env; p && *p; p++)
		count++;
	env = calloc(count + json_object_size(own) + OURS_MAX, sizeof(*env));
	ok = env != NULL;
	for (char **p = i->sandbox.env; ok && p && *p; p++)
		ok = add_entry(env, &n, strdup(*p));
	ok = ok && add_entry(env, &n, strdup("E2B_SANDBOX=true")) &&
	     add_entry(env, &n, str_printf("E2B_SANDBOX_ID=%s", i->sandbox.id)) &&
	     add_entry(env, &n, str_printf("E2B_TEMPLATE_ID=%s", instance_shown_template_id(i))) &&
	     add_trust(env, &n, i);
	json_object_foreach(own, key, value) ok =
		ok && add_entry(env, &n, str_printf("%s=%s", key, json_string_value(value)));
	json_decref(own);
	if (ok)
		return env;
	environment_free(env);
	return NULL;
}
