#include "proto/http_headers.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

bool http_is_token_char(unsigned char c)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
		return true;
	return c && strchr("!#$%&'*+-.^_`|~", c);
}

bool http_is_token(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!http_is_token_char((unsigned char)s[i]))
			return false;
	return n > 0;
}

static int folded(char c)
{
	return c == '_' ? '-' : tolower((unsigned char)c);
}

bool http_is_same_name(const char *a, const char *b)
{
	for (; *a && *b; a++, b++)
		if (folded(*a) != folded(*b))
			return false;
	return *a == *b;
}

bool http_is_reserved(const char *name)
{
	static const char *const reserved[] = {"host", "content-length", "transfer-encoding",
		"connection", "upgrade", "te", "trailer", "expect", "keep-alive",
		"proxy-connection", "proxy-authorization", "proxy-authenticate", "http2-settings",
		NULL};

	for (const char *const *r = reserved; *r; r++)
		if (strcasecmp(*r, name) == 0)
			return true;
	return false;
}

bool http_is_authority(const char *s)
{
	return s[strspn(s,
		       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:[]")] ==
	       '\0';
}

bool http_is_field_value(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

const struct http_header *http_header_each(
	const struct http_headers *h, const char *name, unsigned *index)
{
	size_t n = strlen(name);

	while (*index < h->count) {
		const struct http_header *f = &h->items[(*index)++];

		if (f->name_len == n && strncasecmp(f->name, name, n) == 0)
			return f;
	}
	return NULL;
}

const char *http_header_get(const struct http_headers *h, const char *name)
{
	unsigned i = 0;
	const struct http_header *f = http_header_each(h, name, &i);

	return f ? f->value : NULL;
}

unsigned http_header_count(const struct http_headers *h, const char *name)
{
	unsigned i = 0, count = 0;

	while (http_header_each(h, name, &i))
		count++;
	return count;
}

/* Moves past the closing quote, or to the end of an unterminated string. */
static const char *skip_quoted(const char *p)
{
	for (p++; *p && *p != '"'; p++)
		if (*p == '\\' && p[1])
			p++;
	return *p ? p + 1 : p;
}

bool http_list_next(const char **cursor, const char **ret_item, size_t *ret_n)
{
	const char *p = *cursor, *start, *end;

	while (is_blank(*p) || *p == ',')
		p++;
	start = p;
	while (*p && *p != ',')
		p = *p == '"' ? skip_quoted(p) : p + 1;
	*cursor = p;
	for (end = p; end > start && is_blank(end[-1]);)
		end--;
	*ret_item = start;
	*ret_n = (size_t)(end - start);
	return end > start;
}

/* The length of an element without its parameters. */
static size_t bare_len(const char *item, size_t n)
{
	const char *semicolon = memchr(item, ';', n);

	if (semicolon)
		n = (size_t)(semicolon - item);
	while (n && is_blank(item[n - 1]))
		n--;
	return n;
}

static bool is_word(const char *s, size_t n, const char *word)
{
	return strlen(word) == n && strncasecmp(s, word, n) == 0;
}

bool http_header_has_token(const struct http_headers *h, const char *name, const char *token)
{
	const struct http_header *f;
	const char *item;
	unsigned i = 0;
	size_t n;

	while ((f = http_header_each(h, name, &i)))
		for (const char *p = f->value; http_list_next(&p, &item, &n);)
			if (is_word(item, bare_len(item, n), token))
				return true;
	return false;
}

/* Parses "0.8" as 800. A malformed weight counts as absent: 1000. */
static unsigned parse_weight(const char *s, const char *end)
{
	unsigned weight, unit = 100;

	if (s == end || (*s != '0' && *s != '1'))
		return 1000;
	weight = *s++ == '1' ? 1000 : 0;
	if (s < end && *s == '.')
		s++;
	for (; s < end && *s >= '0' && *s <= '9' && unit; s++, unit /= 10)
		weight += (unsigned)(*s - '0') * unit;
	return weight > 1000 ? 1000 : weight;
}

/* The q parameter of a list element. */
static unsigned element_weight(const char *item, size_t n)
{
	const char *p = memchr(item, ';', n), *end = item + n;

	while (p) {
		p++;
		while (p < end && is_blank(*p))
			p++;
		if (end - p >= 2 && (*p == 'q' || *p == 'Q') && p[1] == '=')
			return parse_weight(p + 2, end);
		p = memchr(p, ';', (size_t)(end - p));
	}
	return 1000;
}

unsigned http_encoding_weight(const struct http_headers *h, const char *coding)
{
	unsigned i = 0, weight = strcmp(coding, "identity") == 0 ? 1000 : 0;
	const struct http_header *f;
	const char *item;
	size_t n;

	while ((f = http_header_each(h, "accept-encoding", &i)))
		for (const char *p = f->value; http_list_next(&p, &item, &n);) {
			size_t bare = bare_len(item, n);

			if (is_word(item, bare, coding))
				return element_weight(item, n);
			if (is_word(item, bare, "*"))
				weight = element_weight(item, n);
		}
	return weight;
}

bool http_content_type_is(const char *value, const char *type)
{
	return value && is_word(value, bare_len(value, strlen(value)), type);
}

/* Copies a parameter's value (a token or a quoted string) and moves *cursor past it. out NULL only
 * skips. Returns the length, -EINVAL or -EMSGSIZE. */
static int take_parameter_value(const char **cursor, char *out, size_t cap)
{
	const char *p = *cursor;
	bool quoted = *p == '"';
	size_t n = 0;

	if (quoted)
		p++;
	while (*p && (quoted ? *p != '"' : *p != ';' && !is_blank(*p))) {
		if (quoted && *p == '\\' && p[1])
			p++;
		if (out && n + 1 >= cap)
			return -EMSGSIZE;
		if (out)
			out[n] = *p;
		n++;
		p++;
	}
	if (quoted && *p++ != '"')
		return -EINVAL;
	if (out)
		out[n] = '\0';
	*cursor = p;
	return (int)n;
}

int http_parameter(const char *value, const char *name, char *out, size_t cap)
{
	const char *p = value + strcspn(value, ";"), *key;
	int found = -ENOENT, r;

	for (;;) {
		bool match;

		while (is_blank(*p) || *p == ';')
			p++;
		if (!*p)
			return found;
		key = p;
		while (http_is_token_char((unsigned char)*p))
			p++;
		if (p == key || *p != '=')
			return -EINVAL;
		match = is_word(key, (size_t)(p - key), name);
		if (match && found >= 0)
			return -EINVAL;
		p++;
		r = take_parameter_value(&p, match ? out : NULL, cap);
		if (r < 0)
			return r;
		if (match)
			found = r;
		if (*p && *p != ';' && !is_blank(*p))
			return -EINVAL;
	}
}
