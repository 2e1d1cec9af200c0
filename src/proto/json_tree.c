#include "proto/json_tree.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/json_scan.h"
#include "proto/json_text.h"

/* The text is already validated as a whole: every container and every string ends. */
struct tree {
	const char *at, *end;
	unsigned flags;
	const char *reason; /* set on failure */
	json_t *twice;	    /* owned: the key that is duplicate; NULL: none */
};

static json_t *build(struct tree *t);

static void skip_space(struct tree *t)
{
	while (*t->at == ' ' || *t->at == '\t' || *t->at == '\n' || *t->at == '\r')
		t->at++;
}

/* Consumes c if it comes next. */
static bool take(struct tree *t, char c)
{
	skip_space(t);
	if (*t->at != c)
		return false;
	t->at++;
	return true;
}

/* --- texts --- */

static uint32_t unit(const char *hex)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++) {
		char c = hex[i];

		v = v << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
	}
	return v;
}

/* Decodes the escape whose backslash is at `at`; returns its length in bytes. */
static size_t put_escape(struct tree *t, const char *at, char **to)
{
	static const char names[] = "bfnrt", values[] = "\b\f\n\r\t";
	const char *name = strchr(names, at[1]);
	uint32_t c;

	if (at[1] != 'u') {
		*(*to)++ = name ? values[name - names] : at[1];
		return 2;
	}
	c = unit(at + 2);
	if (!c && t->flags & JSON_TREE_NO_NUL)
		t->reason = "\\u0000 is not allowed";
	if (c < 0xd800 || c > 0xdbff) {
		*to = json_text_put_utf8(*to, c);
		return 6;
	}
	*to = json_text_put_utf8(*to, 0x10000 + ((c & 0x3ff) << 10 | (unit(at + 8) & 0x3ff)));
	return 12;
}

/* Decodes n bytes that contain escapes. NULL when out of memory, or with t->reason set. */
static char *unescape(struct tree *t, const char *from, size_t n, size_t *ret_n)
{
	char *text = malloc(n), *to = text;
	const char *end = from + n;

	while (text && from < end) {
		const char *next = memchr(from, '\\', (size_t)(end - from));
		size_t plain = (size_t)((next ? next : end) - from);

		memcpy(to, from, plain);
		to += plain;
		from += plain;
		if (next)
			from += put_escape(t, from, &to);
	}
	*ret_n = (size_t)(to - text);
	if (!t->reason)
		return text;
	free(text);
	return NULL;
}

/* Reads a string. The result points into the text, or is *ret_owned when it had to be copied. NULL
 * when out of memory, or with t->reason set. */
static const char *read_text(struct tree *t, size_t *ret_n, char **ret_owned)
{
	const char *begin = t->at + 1, *end = memchr(begin, '"', (size_t)(t->end - begin)), *escape;

	escape = memchr(begin, '\\', (size_t)(end - begin));
	if (escape) /* an escaped quote does not end the string */
		for (end = escape; *end != '"';)
			end += *end == '\\' ? 2 : 1;
	t->at = end + 1;
	*ret_n = (size_t)(end - begin);
	*ret_owned = NULL;
	if (!escape)
		return begin;
	*ret_owned = unescape(t, begin, *ret_n, ret_n);
	return *ret_owned;
}

static json_t *build_text(struct tree *t)
{
	_cleanup_free_ char *owned = NULL;
	size_t n;
	const char *text = read_text(t, &n, &owned);

	return text ? json_stringn_nocheck(text, n) : NULL;
}

/* --- containers --- */

static bool build_member(struct tree *t, json_t *object)
{
	_cleanup_free_ char *owned = NULL;
	const char *key;
	size_t n;

	skip_space(t);
	key = read_text(t, &n, &owned);
	if (!key)
		return false;
	if (t->flags & JSON_TREE_UNIQUE && json_object_getn(object, key, n)) {
		t->reason = "duplicate object key";
		t->twice = json_stringn_nocheck(key, n); /* or it is not named */
		return false;
	}
	return take(t, ':') && json_object_setn_new_nocheck(object, key, n, build(t)) == 0;
}

static bool build_element(struct tree *t, json_t *array)
{
	return json_array_append_new(array, build(t)) == 0;
}

static json_t *build_container(
	struct tree *t, json_t *c, char end, bool (*item)(struct tree *t, json_t *c))
{
	t->at++;
	if (!c || take(t, end))
		return c;
	do {
		if (item(t, c))
			continue;
		json_decref(c);
		return NULL;
	} while (take(t, ','));
	return take(t, end) ? c : NULL;
}

/* --- numbers and words --- */

static json_t *build_number(struct tree *t)
{
	const char *begin = t->at;
	bool whole = true;

	for (; *t->at && strchr("+-.0123456789eE", *t->at); t->at++)
		whole = whole && !strchr(".eE", *t->at);
	return whole ? json_integer(strtoll(begin, NULL, 10)) : json_real(strtod(begin, NULL));
}

static json_t *build_word(struct tree *t, size_t n, json_t *v)
{
	t->at += n;
	return v;
}

/* NULL when out of memory, or with t->reason set. Recurses as deep as the text nests; judge()
 * limits that. */
static json_t *build(struct tree *t)
{
	skip_space(t);
	switch (*t->at) {
	case '{':
		return build_container(t, json_object(), '}', build_member);
	case '[':
		return build_container(t, json_array(), ']', build_element);
	case '"':
		return build_text(t);
	case 't':
		return build_word(t, 4, json_true());
	case 'f':
		return build_word(t, 5, json_false());
	case 'n':
		return build_word(t, 4, json_null());
	default:
		return build_number(t);
	}
}

/* NULL when the text is valid and within the limits; otherwise the reason. */
static const char *judge(const void *text, size_t n)
{
	switch (json_scan_object(text, n, JSON_TREE_DEPTH_MAX, JSON_TREE_WORK_MAX)) {
	case 0:
		return NULL;
	case -ELOOP:
		return "the JSON nests too deep";
	case -E2BIG:
		return "the JSON has too many values";
	default:
		return "it is not a valid JSON object";
	}
}

static json_t *parse(struct tree *t, const void *text, size_t n, unsigned flags)
{
	json_t *tree;

	*t = (struct tree){.at = text,
		.end = n ? (const char *)text + n : text,
		.flags = flags,
		.reason = judge(text, n)};
	tree = t->reason ? NULL : build(t);
	if (!tree && !t->reason)
		t->reason = "out of memory";
	return tree;
}

json_t *json_tree_parse(const void *text, size_t n, unsigned flags, const char **ret_reason)
{
	struct tree t;
	json_t *tree = parse(&t, text, n, flags);

	json_decref(t.twice);
	if (!tree)
		*ret_reason = t.reason;
	return tree;
}

json_t *json_tree_parse_said(
	const void *text, size_t n, unsigned flags, char ret_reason[JSON_TREE_REASON_BYTES])
{
	struct tree t;
	json_t *tree = parse(&t, text, n, flags);
	_cleanup_free_ char *key =
		t.twice ? json_dumps(t.twice, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;

	(void)snprintf(ret_reason, JSON_TREE_REASON_BYTES, "%s%s%.64s", tree ? "" : t.reason,
		key ? " " : "", key ? key : ""); /* fits */
	json_decref(t.twice);
	return tree;
}

json_t *json_tree_stored(const char *text)
{
	const char *unused;

	return text ? json_tree_parse(text, strlen(text), 0, &unused) : NULL;
}

bool json_tree_is_absent(const json_t *v)
{
	return !v || json_is_null(v);
}

bool json_tree_has(const json_t *object, const char *key)
{
	return !json_tree_is_absent(json_object_get(object, key));
}

const char *json_tree_text(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	return s ? s : "";
}

const char *json_tree_word(const json_t *object, const char *key)
{
	const char *s = json_tree_text(object, key);

	return *s ? s : NULL;
}
