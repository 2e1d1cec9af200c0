#include "interpreter/prelude.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static int set_pair(const struct spec *s, const char *assignment, struct buf *out)
{
	const char *equals = strchr(assignment, '=');
	_cleanup_free_ char *name = strndup(assignment, (size_t)(equals - assignment));

	return name ? spec_add_code(s, s->set_env, name, equals + 1, out) : -ENOMEM;
}

int prelude_renew(const struct spec *s, const struct sandbox_env *env, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; s->set_env && i < env->count && r == 0; i++)
		r = set_pair(s, env->items[i], out);
	if (r == 0 && s->reseed)
		r = spec_add_code(s, s->reseed, NULL, NULL, out);
	return r;
}

int prelude_set(const struct spec *s, const json_t *vars, struct buf *out)
{
	const char *name;
	json_t *value;
	int r = 0;

	json_object_foreach((json_t *)(uintptr_t)vars, name, value) if (r == 0) r =
		spec_add_code(s, s->set_env, name, json_string_value(value), out);
	return r;
}

int prelude_take_back(
	const struct spec *s, const struct sandbox_env *env, const json_t *vars, struct buf *out)
{
	const char *name;
	json_t *unused;
	int r = 0;

	json_object_foreach((json_t *)(uintptr_t)vars, name, unused)
	{
		const char *value = json_string_value(json_object_get(s->env, name));

		if (!value)
			value = sandbox_env_get(env, name);
		if (!value)
			value = getenv(name);
		if (r == 0)
			r = value ? spec_add_code(s, s->set_env, name, value, out)
				  : spec_add_code(s, s->unset_env, name, NULL, out);
	}
	return r;
}
