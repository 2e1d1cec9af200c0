#include "proto/base64.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"

static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Encodes two characters at a time: 12 bits index a pair. 8 KiB, filled at start-up, so encoding
 * needs no lock and no check. */
static char pairs[4096][2];

/* The value of each character at the four positions of a group, shifted into place. Covers both
 * alphabets; INVALID for all other characters. */
static uint32_t values[4][256];

enum { INVALID = 0x01000000 };

static void __attribute__((constructor)) fill_tables(void)
{
	for (unsigned i = 0; i < 4096; i++) {
		pairs[i][0] = standard[i >> 6];
		pairs[i][1] = standard[i & 63];
	}
	for (unsigned k = 0; k < 4; k++) {
		for (unsigned i = 0; i < 256; i++)
			values[k][i] = INVALID;
		for (unsigned i = 0; i < 64; i++) {
			values[k][(uint8_t)standard[i]] = i << (18 - 6 * k);
			values[k][(uint8_t)url_safe[i]] = i << (18 - 6 * k);
		}
	}
}

/* Encodes whole groups of three bytes; returns how many bytes it took. */
static size_t encode_groups(char *out, const uint8_t *p, size_t n)
{
	size_t i = 0;

	for (; i + 3 <= n; i += 3, out += 4) {
		uint32_t v = (uint32_t)p[i] << 16 | (uint32_t)p[i + 1] << 8 | p[i + 2];

		memcpy(out, pairs[v >> 12], 2);
		memcpy(out + 2, pairs[v & 0xfff], 2);
	}
	return i;
}

/* Encodes the one or two bytes after the groups. Returns the characters written, without
 * padding. */
static size_t encode_rest(char *out, const uint8_t *p, size_t n)
{
	uint32_t v;

	if (!n)
		return 0;
	v = (uint32_t)p[0] << 16 | (n == 2 ? (uint32_t)p[1] << 8 : 0);
	memcpy(out, pairs[v >> 12], 2);
	if (n == 2)
		out[2] = standard[v >> 6 & 63];
	return n + 1;
}

size_t base64_encode_nopad(char *out, const void *data, size_t n)
{
	size_t done = encode_groups(out, data, n);

	return done / 3 * 4 +
	       encode_rest(out + done / 3 * 4, (const uint8_t *)data + done, n - done);
}

void base64_encode(char *out, const void *data, size_t n)
{
	size_t len = base64_encode_nopad(out, data, n);

	while (len % 4)
		out[len++] = '=';
}

size_t base64_encode_url(char *out, const void *data, size_t n)
{
	size_t len = base64_encode_nopad(out, data, n);

	for (size_t i = 0; i < len; i++) {
		if (out[i] == '+')
			out[i] = '-';
		else if (out[i] == '/')
			out[i] = '_';
	}
	return len;
}

/* The length without padding, or -1 when the padding is wrong. */
static ptrdiff_t strip_padding(const char *s, size_t n)
{
	size_t pad = 0;

	while (pad < 2 && n && s[n - 1] == '=') {
		n--;
		pad++;
	}
	if (n % 4 == 1 || (pad && (n + pad) % 4))
		return -1;
	return (ptrdiff_t)n;
}

/* Decodes the two or three characters after the groups. Unused bits must be zero, so that every
 * byte string has one spelling. */
static ptrdiff_t decode_rest(uint8_t *out, const uint8_t *s, size_t n)
{
	uint32_t v;

	if (!n)
		return 0;
	v = values[0][s[0]] | values[1][s[1]] | (n == 3 ? values[2][s[2]] : 0);
	if (v & (INVALID | (n == 3 ? 0xff : 0xffff)))
		return -EINVAL;
	out[0] = (uint8_t)(v >> 16);
	if (n == 3)
		out[1] = (uint8_t)(v >> 8);
	return (ptrdiff_t)n - 1;
}

ptrdiff_t base64_decode(uint8_t *out, const char *s, size_t n)
{
	const uint8_t *p = (const uint8_t *)s;
	ptrdiff_t len = strip_padding(s, n), rest;
	uint32_t all = 0;
	size_t groups;

	if (len < 0)
		return -EINVAL;
	groups = (size_t)len / 4;
	for (size_t i = 0; i < groups; i++, p += 4, out += 3) {
		uint32_t v = values[0][p[0]] | values[1][p[1]] | values[2][p[2]] | values[3][p[3]];

		all |= v;
		out[0] = (uint8_t)(v >> 16);
		out[1] = (uint8_t)(v >> 8);
		out[2] = (uint8_t)v;
	}
	rest = decode_rest(out, p, (size_t)len % 4);
	if (all & INVALID || rest < 0)
		return -EINVAL;
	return (ptrdiff_t)(groups * 3) + rest;
}

int base64_decode_to(struct buf *out, const char *s, size_t n)
{
	ptrdiff_t len = strip_padding(s, n);
	uint8_t *room;

	if (len < 0)
		return -EINVAL;
	room = buf_reserve(out, (size_t)len / 4 * 3 + (size_t)len % 4 * 3 / 4);
	if (!room)
		return -errno;
	len = base64_decode(room, s, n);
	if (len < 0)
		return (int)len;
	buf_commit(out, (size_t)len);
	return 0;
}
