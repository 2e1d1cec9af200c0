#include "proto/uri.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"

/* Decodes the byte at s; *ret_taken is the number of characters used. -EINVAL when malformed. */
static int decode_one(const char *s, size_t n, bool plus_is_space, size_t *ret_taken)
{
	int high, low;

	*ret_taken = 1;
	if (*s == '+' && plus_is_space)
		return ' ';
	if (*s != '%')
		return *s ? (uint8_t)*s : -EINVAL;
	if (n < 3)
		return -EINVAL;
	*ret_taken = 3;
	high = str_hex_digit(s[1]);
	low = str_hex_digit(s[2]);
	if (high < 0 || low < 0 || !(high | low))
		return -EINVAL;
	return high << 4 | low;
}

int uri_decode(const char *s, size_t n, bool plus_is_space, char *out, size_t cap)
{
	size_t i = 0, len = 0, taken;
	int c;

	while (i < n) {
		c = decode_one(s + i, n - i, plus_is_space, &taken);
		if (c < 0)
			return c;
		if (len + 1 >= cap || len >= INT_MAX)
			return -EMSGSIZE;
		out[len++] = (char)c;
		i += taken;
	}
	if (!cap)
		return -EMSGSIZE;
	out[len] = '\0';
	return (int)len;
}

int uri_path_parse(const char *path, struct uri_path *ret)
{
	size_t used = 0, n;
	int r;

	ret->count = 0;
	if (*path != '/')
		return -EINVAL;
	for (path++; *path; path += n + (path[n] == '/')) {
		n = strcspn(path, "/");
		if (ret->count == URI_SEGMENTS_MAX)
			return -EMSGSIZE;
		r = uri_decode(path, n, false, ret->storage + used, sizeof(ret->storage) - used);
		if (r < 0)
			return r;
		ret->segments[ret->count++] = ret->storage + used;
		used += (size_t)r + 1;
	}
	return 0;
}

bool uri_path_matches(
	const struct uri_path *path, const char *pattern, const char *params[URI_PARAMS_MAX])
{
	unsigned count = 0;

	for (unsigned i = 0; i < path->count; i++) {
		size_t n;

		if (*pattern++ != '/')
			return false;
		n = strcspn(pattern, "/");
		if (n == 2 && memcmp(pattern, "{}", 2) == 0) {
			assert(count < URI_PARAMS_MAX);
			params[count++] = path->segments[i];
		} else if (strlen(path->segments[i]) != n ||
			   memcmp(path->segments[i], pattern, n) != 0) {
			return false;
		}
		pattern += n;
	}
	return *pattern == '\0' || (path->count == 0 && strcmp(pattern, "/") == 0);
}

bool uri_query_next(const char **cursor, struct uri_pair *ret)
{
	const char *p = *cursor, *equals;
	size_t n;

	if (!p)
		return false;
	while (*p == '&')
		p++;
	if (!*p)
		return false;
	n = strcspn(p, "&");
	equals = memchr(p, '=', n);
	ret->key = p;
	ret->key_len = equals ? (size_t)(equals - p) : n;
	ret->value = equals ? equals + 1 : p + n;
	ret->value_len = (size_t)(p + n - ret->value);
	*cursor = p + n;
	return true;
}

/* Whether n encoded bytes decode to this key. */
static bool key_is(const char *s, size_t n, const char *key)
{
	size_t i = 0, taken;

	for (; *key && i < n; key++, i += taken)
		if (decode_one(s + i, n - i, true, &taken) != (uint8_t)*key)
			return false;
	return !*key && i == n;
}

static bool find_key(const char *query, const char *key, struct uri_pair *ret)
{
	while (uri_query_next(&query, ret))
		if (key_is(ret->key, ret->key_len, key))
			return true;
	return false;
}

int uri_query_get(const char *query, const char *key, char *out, size_t cap)
{
	struct uri_pair pair;

	if (!find_key(query, key, &pair))
		return -ENOENT;
	return uri_decode(pair.value, pair.value_len, true, out, cap);
}

int uri_query_dup(const char *query, const char *key, char **ret)
{
	struct uri_pair pair;
	char *value;
	int r;

	if (!find_key(query, key, &pair))
		return -ENOENT;
	value = malloc(pair.value_len + 1);
	if (!value)
		return -ENOMEM;
	r = uri_decode(pair.value, pair.value_len, true, value, pair.value_len + 1);
	if (r < 0) {
		free(value);
		return r;
	}
	*ret = value;
	return 0;
}

int uri_query_u64(
	const char *query, const char *key, unsigned long long max, unsigned long long *ret)
{
	char text[24];
	int n = uri_query_get(query, key, text, sizeof(text));
	unsigned long long v;

	if (n < 0)
		return n == -EMSGSIZE ? -EINVAL : n;
	if (!n || strspn(text, "0123456789") != (size_t)n)
		return -EINVAL;
	errno = 0;
	v = strtoull(text, NULL, 10);
	if (errno || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int uri_query_flag(const char *query, const char *key, bool *ret)
{
	char text[8];
	int n = uri_query_get(query, key, text, sizeof(text));
	bool yes;

	if (n <= 0)
		return n == 0 ? -ENODATA : n == -ENOENT ? n : -EINVAL;
	yes = strcmp(text, "1") == 0 || strcmp(text, "true") == 0;
	if (!yes && strcmp(text, "0") != 0 && strcmp(text, "false") != 0)
		return -EINVAL;
	*ret = yes;
	return 0;
}

/* Decodes one piece of a filter into the storage, at *used. */
static int filter_piece(
	struct uri_filter *f, const char *s, size_t n, size_t *used, const char **ret)
{
	int r = uri_decode(s, n, true, f->storage + *used, sizeof(f->storage) - *used);

	if (r < 0)
		return r;
	*ret = f->storage + *used;
	*used += (size_t)r + 1;
	return 0;
}

/* The second decoding goes to the front of the storage; pieces of the third follow it. */
int uri_filter_parse(const char *value, struct uri_filter *ret)
{
	struct uri_pair pair;
	const char *cursor = ret->storage;
	size_t used;
	int r;

	ret->count = 0;
	r = uri_decode(value, strlen(value), true, ret->storage, sizeof(ret->storage));
	if (r < 0)
		return r;
	used = (size_t)r + 1;
	while (uri_query_next(&cursor, &pair)) {
		if (ret->count == URI_FILTER_MAX)
			return -EMSGSIZE;
		r = filter_piece(ret, pair.key, pair.key_len, &used, &ret->pairs[ret->count].key);
		if (!r)
			r = filter_piece(ret, pair.value, pair.value_len, &used,
				&ret->pairs[ret->count].value);
		if (r < 0)
			return r;
		ret->count++;
	}
	return 0;
}

static bool is_unreserved(char c)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
		return true;
	return c == '-' || c == '.' || c == '_' || c == '~';
}

int uri_encode(struct buf *out, const char *s, size_t n)
{
	static const char hex[] = "0123456789ABCDEF";
	char *room = (char *)buf_reserve(out, 3 * n);
	size_t len = 0;

	if (!room)
		return -errno;
	for (size_t i = 0; i < n; i++) {
		uint8_t c = (uint8_t)s[i];

		if (is_unreserved(s[i])) {
			room[len++] = s[i];
			continue;
		}
		room[len++] = '%';
		room[len++] = hex[c >> 4];
		room[len++] = hex[c & 15];
	}
	buf_commit(out, len);
	return 0;
}
