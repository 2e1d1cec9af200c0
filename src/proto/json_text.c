#include "proto/json_text.h"

#include <stdint.h>
#include <string.h>

/* The length of the well-formed UTF-8 sequence at p, or 0 (Unicode 15, table 3-7). */
static size_t sequence_len(const uint8_t *p, size_t n)
{
	uint8_t low = 0x80, high = 0xbf;
	size_t len;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		len = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		len = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		len = 4;
	else
		return 0;
	if (n < len)
		return 0;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return len;
}

/* Checks eight bytes at once for a control character, a quote, a backslash, or non-ASCII. */
static bool word_is_special(uint64_t w)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
	uint64_t quote = w ^ ones * '"', backslash = w ^ ones * '\\', del = w ^ ones * 0x7f;

	return ((w - ones * 0x20) | (quote - ones) | (backslash - ones) | (del - ones) | w) & high;
}

static bool is_special(uint8_t c)
{
	return c < 0x20 || c >= 0x7f || c == '"' || c == '\\';
}

/* Counts bytes at the front that need no escape. */
static size_t plain_len(const uint8_t *p, size_t n)
{
	size_t i = 0;
	uint64_t w;

	for (; i + 8 <= n; i += 8) {
		memcpy(&w, p + i, 8);
		if (word_is_special(w))
			break;
	}
	while (i < n && !is_special(p[i]))
		i++;
	return i;
}

char *json_text_put_utf8(char *to, uint32_t c)
{
	if (c < 0x80) {
		*to++ = (char)c;
	} else if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
	} else if (c < 0x10000) {
		*to++ = (char)(0xe0 | c >> 12);
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
	} else {
		*to++ = (char)(0xf0 | c >> 18);
		*to++ = (char)(0x80 | (c >> 12 & 0x3f));
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	if (c >= 0x80)
		*to++ = (char)(0x80 | (c & 0x3f));
	return to;
}

size_t json_text_plain(const char *s, size_t n)
{
	return plain_len((const uint8_t *)s, n);
}

size_t json_text_sequence(const char *s, size_t n)
{
	return sequence_len((const uint8_t *)s, n);
}

static int add_unit(struct buf *out, uint32_t unit)
{
	static const char hex[] = "0123456789abcdef";
	char text[6] = {'\\', 'u', hex[unit >> 12 & 15], hex[unit >> 8 & 15], hex[unit >> 4 & 15],
		hex[unit & 15]};

	return buf_add(out, text, sizeof(text));
}

static int add_code_point(struct buf *out, uint32_t c)
{
	int r;

	if (c < 0x10000)
		return add_unit(out, c);
	c -= 0x10000;
	r = add_unit(out, 0xd800 + (c >> 10));
	return r ? r : add_unit(out, 0xdc00 + (c & 0x3ff));
}

static uint32_t code_point(const uint8_t *p, size_t len)
{
	uint32_t c = len == 2 ? p[0] & 0x1f : len == 3 ? p[0] & 0x0f : p[0] & 0x07;

	for (size_t i = 1; i < len; i++)
		c = c << 6 | (p[i] & 0x3f);
	return c;
}

static int add_ascii(struct buf *out, uint8_t c)
{
	switch (c) {
	case '"':
		return buf_add(out, "\\\"", 2);
	case '\\':
		return buf_add(out, "\\\\", 2);
	case '\n':
		return buf_add(out, "\\n", 2);
	case '\r':
		return buf_add(out, "\\r", 2);
	case '\t':
		return buf_add(out, "\\t", 2);
	case '\b':
		return buf_add(out, "\\b", 2);
	case '\f':
		return buf_add(out, "\\f", 2);
	default:
		return c < 0x20 ? add_unit(out, c) : buf_add_u8(out, c);
	}
}

/* Writes one character that is not plain; *ret_len bytes of s were consumed. */
static int add_special(
	struct buf *out, const uint8_t *p, size_t n, enum json_text_mode mode, size_t *ret_len)
{
	size_t len = sequence_len(p, n);

	*ret_len = len ? len : 1;
	if (p[0] == 0x7f && mode == JSON_TEXT_ASCII)
		return add_unit(out, p[0]);
	if (len == 1)
		return add_ascii(out, p[0]);
	if (!len)
		return mode == JSON_TEXT_ASCII ? add_unit(out, 0xfffd)
					       : buf_add(out, "\xef\xbf\xbd", 3);
	return mode == JSON_TEXT_ASCII ? add_code_point(out, code_point(p, len))
				       : buf_add(out, p, len);
}

int json_text_escape(struct buf *out, const char *s, size_t n, enum json_text_mode mode)
{
	const uint8_t *p = (const uint8_t *)s;
	size_t len;
	int r;

	while (n) {
		len = plain_len(p, n);
		if (len)
			r = buf_add(out, p, len);
		else
			r = add_special(out, p, n, mode, &len);
		if (r)
			return r;
		p += len;
		n -= len;
	}
	return 0;
}

int json_text_string(struct buf *out, const char *s, size_t n, enum json_text_mode mode)
{
	int r = buf_add_u8(out, '"');

	if (!r)
		r = json_text_escape(out, s, n, mode);
	return r ? r : buf_add_u8(out, '"');
}

bool json_text_is_utf8(const char *s, size_t n)
{
	const uint8_t *p = (const uint8_t *)s;
	size_t len;

	for (; n; p += len, n -= len) {
		len = sequence_len(p, n);
		if (!len)
			return false;
	}
	return true;
}
