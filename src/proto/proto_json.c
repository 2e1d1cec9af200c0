#include "proto/proto_json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base64.h"
#include "proto/json_tree.h"

enum { SNAKE_MAX = 64 };

json_t *proto_json_parse(const void *data, size_t n, const char **ret_reason)
{
	return n ? json_tree_parse(data, n, JSON_TREE_UNIQUE, ret_reason) : json_object();
}

/* "includeEntry" as "include_entry"; false when it is too long or has no capitals. */
static bool to_snake(const char *name, char out[SNAKE_MAX])
{
	bool changed = false;
	size_t n = 0;

	for (; *name; name++) {
		if (n + 3 > SNAKE_MAX)
			return false;
		if (*name >= 'A' && *name <= 'Z') {
			out[n++] = '_';
			out[n++] = (char)(*name - 'A' + 'a');
			changed = true;
		} else {
			out[n++] = *name;
		}
	}
	out[n] = '\0';
	return changed;
}

/* The field, or NULL when it is absent or null. */
static json_t *get(const json_t *o, const char *name)
{
	char snake[SNAKE_MAX];
	json_t *v = json_object_get(o, name);

	if (!v && to_snake(name, snake))
		v = json_object_get(o, snake);
	return v && !json_is_null(v) ? v : NULL;
}

int proto_json_string(const json_t *o, const char *name, const char **ret)
{
	json_t *v = get(o, name);

	if (!v)
		return 0;
	if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
		return -EINVAL;
	*ret = json_string_value(v);
	return 1;
}

int proto_json_bool(const json_t *o, const char *name, bool *ret)
{
	json_t *v = get(o, name);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return -EINVAL;
	*ret = json_is_true(v);
	return 1;
}

int proto_json_object(const json_t *o, const char *name, json_t **ret)
{
	json_t *v = get(o, name);

	if (!v)
		return 0;
	if (!json_is_object(v))
		return -EINVAL;
	*ret = v;
	return 1;
}

int proto_json_array(const json_t *o, const char *name, json_t **ret)
{
	json_t *v = get(o, name);

	if (!v)
		return 0;
	if (!json_is_array(v))
		return -EINVAL;
	*ret = v;
	return 1;
}

/* Decimal digits with an optional minus, the whole string. */
static int integer_of_string(const json_t *v, int64_t *ret)
{
	const char *s = json_string_value(v);
	size_t n = json_string_length(v), sign = *s == '-';

	if (n == sign || strspn(s + sign, "0123456789") != n - sign)
		return -EINVAL;
	errno = 0;
	*ret = strtoll(s, NULL, 10);
	return errno ? -ERANGE : 0;
}

static int integer_of(const json_t *v, int64_t *ret)
{
	double d;

	if (json_is_integer(v)) {
		*ret = json_integer_value(v);
		return 0;
	}
	if (json_is_string(v))
		return integer_of_string(v, ret);
	if (!json_is_real(v))
		return -EINVAL;
	d = json_real_value(v);
	if (d != trunc(d))
		return -EINVAL;
	if (d < -9223372036854775808.0 || d >= 9223372036854775808.0)
		return -ERANGE;
	*ret = (int64_t)d;
	return 0;
}

static int get_integer(const json_t *o, const char *name, int64_t min, int64_t max, int64_t *ret)
{
	json_t *v = get(o, name);
	int64_t i;
	int r;

	if (!v)
		return 0;
	r = integer_of(v, &i);
	if (r < 0)
		return r;
	if (i < min || i > max)
		return -ERANGE;
	*ret = i;
	return 1;
}

int proto_json_i64(const json_t *o, const char *name, int64_t *ret)
{
	return get_integer(o, name, INT64_MIN, INT64_MAX, ret);
}

int proto_json_u32(const json_t *o, const char *name, uint32_t *ret)
{
	int64_t v;
	int r = get_integer(o, name, 0, UINT32_MAX, &v);

	if (r > 0)
		*ret = (uint32_t)v;
	return r;
}

int proto_json_bytes(const json_t *o, const char *name, struct buf *out)
{
	json_t *v = get(o, name);
	int r;

	if (!v)
		return 0;
	if (!json_is_string(v))
		return -EINVAL;
	r = base64_decode_to(out, json_string_value(v), json_string_length(v));
	return r ? r : 1;
}

int proto_json_enum(
	const json_t *o, const char *name, const struct proto_json_enum *table, int *ret)
{
	json_t *v = get(o, name);
	int64_t number;
	int r;

	if (!v)
		return 0;
	if (json_is_string(v)) {
		for (; table->name; table++)
			if (strcmp(table->name, json_string_value(v)) == 0) {
				*ret = table->value;
				return 1;
			}
		return -EINVAL;
	}
	r = get_integer(o, name, INT32_MIN, INT32_MAX, &number);
	if (r > 0)
		*ret = (int)number;
	return r;
}

const char *proto_json_enum_name(const struct proto_json_enum *table, int value)
{
	for (; table->name; table++)
		if (table->value == value)
			return table->name;
	return NULL;
}

static int dump_piece(const char *piece, size_t n, void *data)
{
	return buf_add(data, piece, n);
}

int proto_json_dump(const json_t *j, struct buf *out)
{
	size_t mark = buf_len(out);

	errno = 0;
	if (json_dump_callback(j, dump_piece, out, JSON_COMPACT | JSON_ENCODE_ANY) == 0)
		return 0;
	out->end = out->start + mark;
	return errno == EMSGSIZE ? -EMSGSIZE : -ENOMEM;
}
