#include "proto/json_scan.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "proto/json_text.h"

struct scan {
	const char *at, *end;
	bool nul;    /* the string contains an escaped NUL */
	size_t work; /* budget that is left */
	int refused; /* -ELOOP or -E2BIG; 0 when the text is merely invalid */
};

static bool refuse(struct scan *s, int why)
{
	s->refused = why;
	return false;
}

static bool spend(struct scan *s, size_t work)
{
	if (work > s->work)
		return refuse(s, -E2BIG);
	s->work -= work;
	return true;
}

/* 0 at the end. A NUL in the text reads the same: it is never valid in JSON. */
static char peek(const struct scan *s)
{
	return s->at < s->end ? *s->at : 0;
}

static void skip_space(struct scan *s)
{
	while (s->at < s->end &&
		(*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
		s->at++;
}

/* Skips space. Consumes c if it comes next, and returns whether it did. */
static bool take(struct scan *s, char c)
{
	skip_space(s);
	if (peek(s) != c)
		return false;
	s->at++;
	return true;
}

/* --- strings --- */

/* Reads \uXXXX; its value or -1. */
static int unit(struct scan *s)
{
	int code = 0;

	if (s->end - s->at < 6 || s->at[0] != '\\' || s->at[1] != 'u')
		return -1;
	for (int i = 2; i < 6; i++) {
		int digit = str_hex_digit(s->at[i]);

		if (digit < 0)
			return -1;
		code = code << 4 | digit;
	}
	s->at += 6;
	return code;
}

static bool escape(struct scan *s)
{
	char c = s->end - s->at > 1 ? s->at[1] : 0;
	int first, second;

	if (!c || !strchr("\"\\/bfnrtu", c))
		return false;
	if (c != 'u') {
		s->at += 2;
		return true;
	}
	first = unit(s);
	s->nul = s->nul || first == 0;
	if (first < 0xd800 || first > 0xdfff)
		return first >= 0;
	second = first < 0xdc00 ? unit(s) : -1;
	return second >= 0xdc00 && second <= 0xdfff;
}

static bool string(struct scan *s)
{
	size_t n;

	for (s->at++; s->at < s->end && *s->at != '"'; s->at += n) {
		n = json_text_plain(s->at, (size_t)(s->end - s->at));
		if (n)
			continue;
		if (*s->at == '\\') {
			if (!spend(s, 1) || !escape(s))
				return false;
			continue;
		}
		n = json_text_sequence(s->at, (size_t)(s->end - s->at));
		if (!n || (unsigned char)*s->at < 0x20)
			return false;
	}
	return take(s, '"');
}

/* --- numbers and words --- */

static bool digits(struct scan *s)
{
	const char *begin = s->at;

	while (peek(s) >= '0' && peek(s) <= '9')
		s->at++;
	return s->at > begin;
}

/* Checks the range. The C library stops at the byte after the number; in an object there always is
 * one. Nobody calls setlocale(), so strtoll and strtod parse numbers as JSON does. */
static bool is_int64(const char *begin)
{
	errno = 0;
	(void)strtoll(begin, NULL, 10); /* errno tells */
	return !errno;
}

static bool number(struct scan *s)
{
	const char *begin = s->at, *first;
	bool whole = true;

	s->at += peek(s) == '-';
	first = s->at;
	if (!digits(s) || (*first == '0' && s->at > first + 1))
		return false;
	if (peek(s) == '.') {
		whole = false;
		s->at++;
		if (!digits(s))
			return false;
	}
	if (peek(s) == 'e' || peek(s) == 'E') {
		whole = false;
		s->at++;
		s->at += peek(s) == '-' || peek(s) == '+';
		if (!digits(s))
			return false;
	}
	if (s->at == s->end || !spend(s, (size_t)(s->at - begin)))
		return false;
	return whole ? is_int64(begin) : isfinite(strtod(begin, NULL));
}

static bool word(struct scan *s, const char *text)
{
	size_t n = strlen(text);

	if ((size_t)(s->end - s->at) < n || memcmp(s->at, text, n) != 0)
		return false;
	s->at += n;
	return true;
}

/* --- values --- */

static bool value(struct scan *s, unsigned depth);

static bool key(struct scan *s)
{
	skip_space(s);
	s->nul = false;
	return peek(s) == '"' && string(s) && !s->nul;
}

static bool member(struct scan *s, unsigned depth)
{
	return key(s) && take(s, ':') && value(s, depth);
}

static bool container(
	struct scan *s, char end, bool (*item)(struct scan *s, unsigned depth), unsigned depth)
{
	s->at++;
	if (take(s, end))
		return true;
	do
		if (!item(s, depth))
			return false;
	while (take(s, ','));
	return take(s, end);
}

static bool nested(
	struct scan *s, char end, bool (*item)(struct scan *s, unsigned depth), unsigned depth)
{
	return depth ? container(s, end, item, depth - 1) : refuse(s, -ELOOP);
}

/* depth: levels of nesting that are still allowed. */
static bool value(struct scan *s, unsigned depth)
{
	if (!spend(s, JSON_SCAN_VALUE_WORK))
		return false;
	skip_space(s);
	switch (peek(s)) {
	case '{':
		return nested(s, '}', member, depth);
	case '[':
		return nested(s, ']', value, depth);
	case '"':
		return string(s);
	case 't':
		return word(s, "true");
	case 'f':
		return word(s, "false");
	case 'n':
		return word(s, "null");
	default:
		return number(s);
	}
}

int json_scan_object(const void *text, size_t n, unsigned depth, size_t work)
{
	struct scan s = {.at = text, .end = n ? (const char *)text + n : text, .work = work};

	skip_space(&s);
	if (peek(&s) != '{')
		return -EINVAL;
	if (!value(&s, depth))
		return s.refused ? s.refused : -EINVAL;
	skip_space(&s);
	return s.at == s.end ? 0 : -EINVAL;
}

/* --- the members of an object --- */

struct json_members json_members_of(const void *text, size_t n)
{
	return (struct json_members){
		.at = text, .end = n ? (const char *)text + n : text, .before = '{'};
}

static struct json_slice slice(const char *begin, const char *end)
{
	return (struct json_slice){.text = begin, .len = (size_t)(end - begin)};
}

static bool read_member(struct scan *s, struct json_member *ret)
{
	const char *begin;

	skip_space(s);
	begin = s->at;
	if (!key(s))
		return false;
	ret->key = slice(begin, s->at);
	if (!take(s, ':'))
		return false;
	skip_space(s);
	ret->value.text = s->at;
	if (!value(s, JSON_SCAN_DEPTH_MAX))
		return false;
	ret->value = slice(ret->value.text, s->at);
	ret->whole = slice(begin, s->at);
	return true;
}

/* Reads the end of the object. */
static int finish(struct scan *s)
{
	if (!take(s, '}'))
		return -EINVAL;
	skip_space(s);
	return s->at == s->end ? 0 : -EINVAL;
}

int json_members_next(struct json_members *m, struct json_member *ret)
{
	struct scan s = {.at = m->at, .end = m->end, .work = SIZE_MAX};
	bool first = m->before == '{';

	if (!take(&s, m->before))
		return first ? -EINVAL : finish(&s);
	skip_space(&s);
	if (first && peek(&s) == '}')
		return finish(&s);
	if (!read_member(&s, ret))
		return -EINVAL;
	m->at = s.at;
	m->before = ',';
	return 1;
}
