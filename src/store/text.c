#include "store/text.h"

#include <errno.h>
#include <string.h>

#include "proto/json_text.h"
#include "proto/json_tree.h"
#include "store/store.h"

bool text_is_id(const char *s)
{
	size_t n = strnlen(s, STORE_ID_MAX + 1);

	return n > 0 && n <= STORE_ID_MAX && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789") == n;
}

int text_check(const char *field, const char *s, size_t max, struct error *e)
{
	size_t n;

	if (!s || !*s)
		return error_set(e, ERROR_USAGE, EINVAL, "%s is missing", field);
	n = strnlen(s, max + 1);
	if (n > max)
		return error_set(e, ERROR_USAGE, EINVAL, "%s is longer than %zu bytes", field, max);
	if (!json_text_is_utf8(s, n))
		return error_set(e, ERROR_USAGE, EINVAL, "%s is not valid UTF-8", field);
	return 0;
}

int text_check_optional(const char *field, const char *s, size_t max, struct error *e)
{
	return s ? text_check(field, s, max, e) : 0;
}

static int check_strings(const char *field, json_t *object, struct error *e)
{
	const char *key;
	json_t *value;

	json_object_foreach(object, key, value) if (!json_is_string(value)) return error_set(
		e, ERROR_USAGE, EINVAL, "%s has a value that is not a string", field);
	return 0;
}

int text_check_json(const char *field, const char *s, bool strings, json_t **ret, struct error *e)
{
	const char *reason = "";
	json_t *object;
	size_t n;
	int r;

	if (ret)
		*ret = NULL;
	if (!s)
		return 0;
	n = strnlen(s, STORE_JSON_MAX + 1);
	if (n > STORE_JSON_MAX)
		return error_set(e, ERROR_USAGE, EINVAL, "%s is longer than %d bytes", field,
			STORE_JSON_MAX);
	object = json_tree_parse(s, n, JSON_TREE_UNIQUE | JSON_TREE_NO_NUL, &reason);
	if (!object)
		return error_set(e, ERROR_USAGE, EINVAL,
			"%s is not a JSON object without repeated names and NUL characters: %s",
			field, reason);
	r = strings ? check_strings(field, object, e) : 0;
	if (r == 0 && ret)
		*ret = object;
	else
		json_decref(object);
	return r;
}
