#include "rules/policy_json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LABEL_MAX = 63 };

int policy_bad(const struct policy_at *at, const char *wanted)
{
	return error_set(at->e, ERROR_USAGE, EINVAL, "%s: %s", at->text, wanted);
}

struct policy_at policy_member(const struct policy_at *of, const char *name)
{
	struct policy_at m = {.e = of->e};

	(void)snprintf(m.text, sizeof(m.text), "%.40s%s%.40s", of->text, of->text[0] ? "." : "",
		name); /* fits, or is cut */
	return m;
}

struct policy_at policy_item(const struct policy_at *of, size_t i)
{
	struct policy_at m = {.e = of->e};

	(void)snprintf(m.text, sizeof(m.text), "%.60s[%zu]", of->text, i); /* fits */
	return m;
}

int policy_known_members(const struct policy_at *at, json_t *object, const char *const *names)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return policy_bad(at, "expected an object");
	json_object_foreach(object, key, value)
	{
		const char *const *n = names;
		struct policy_at m = policy_member(at, key);

		while (*n && strcmp(*n, key) != 0)
			n++;
		if (!*n)
			return policy_bad(&m, "no such member");
	}
	return 0;
}

/* --- values --- */

/* An absent member leaves *ret. */
int policy_get_number(const struct policy_at *of, json_t *object, const char *name, json_int_t min,
	json_int_t max, unsigned *ret)
{
	struct policy_at at = policy_member(of, name);
	json_t *v = json_object_get(object, name);

	if (!v)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
		return error_set(of->e, ERROR_USAGE, EINVAL,
			"%s: expected a number from %lld to %lld", at.text, (long long)min,
			(long long)max);
	*ret = (unsigned)json_integer_value(v);
	return 0;
}

/* NULL for anything else. */
const char *policy_text(json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

/* Checks that the member is an array of at most max items, or absent. Returns its length or
 * -EINVAL. */
int policy_get_array(
	const struct policy_at *of, json_t *object, const char *name, size_t max, json_t **ret)
{
	struct policy_at at = policy_member(of, name);

	*ret = json_object_get(object, name);
	if (!*ret)
		return 0;
	if (!json_is_array(*ret) || json_array_size(*ret) > max)
		return error_set(of->e, ERROR_USAGE, EINVAL, "%s: expected an array of at most %zu",
			at.text, max);
	return (int)json_array_size(*ret);
}

bool policy_is_host(const char *text)
{
	size_t label = 0, n;

	for (n = 0; text[n]; n++) {
		char c = text[n];

		if (c == '.' ? label == 0 || label > LABEL_MAX
			     : !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
				       c == '_'))
			return false;
		label = c == '.' ? 0 : label + 1;
	}
	return n <= POLICY_HOST_MAX && label > 0 && label <= LABEL_MAX;
}
