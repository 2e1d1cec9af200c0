#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"

int str_parse_u64(const char *s, uint64_t *ret)
{
	uint64_t v = 0;

	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(v, 10, &v) ||
			__builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return -ERANGE;
	}
	*ret = v;
	return 0;
}

/* Reads "12" or "12.5" as millionths; *end is the first character after it. */
static int parse_millionths(const char *s, const char **end, uint64_t *ret)
{
	uint64_t v = 0, scale = 1000000;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(v, 10, &v) ||
			__builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return -ERANGE;
	if (__builtin_mul_overflow(v, 1000000, &v))
		return -ERANGE;
	if (*s == '.') {
		if (s[1] < '0' || s[1] > '9')
			return -EINVAL;
		for (s++; *s >= '0' && *s <= '9'; s++) {
			scale /= 10;
			v += (uint64_t)(*s - '0') * scale;
		}
	}
	*end = s;
	*ret = v;
	return 0;
}

static int scale_millionths(uint64_t v, uint64_t unit, uint64_t *ret)
{
	unsigned __int128 t = (unsigned __int128)v * unit / 1000000;

	if (t > UINT64_MAX)
		return -ERANGE;
	*ret = (uint64_t)t;
	return 0;
}

int str_parse_bytes(const char *s, uint64_t unit, uint64_t *ret)
{
	static const char suffixes[] = "KMGT";
	uint64_t v;
	int r = parse_millionths(s, &s, &v);

	if (r < 0)
		return r;
	if (*s && *s != 'B') {
		const char *p = strchr(suffixes, toupper((unsigned char)*s));

		if (!p)
			return -EINVAL;
		unit = UINT64_C(1) << (10 * (p - suffixes + 1));
		s++;
		if (*s == 'i')
			s++;
	} else if (*s == 'B') {
		unit = 1;
	}
	if (*s == 'B' || *s == 'b')
		s++;
	return *s ? -EINVAL : scale_millionths(v, unit, ret);
}

int str_parse_duration_ns(const char *s, uint64_t *ret)
{
	static const struct {
		const char *suffix;
		uint64_t ns;
	} units[] = {{"", NS_PER_S}, {"s", NS_PER_S}, {"ms", NS_PER_MS}, {"m", 60 * NS_PER_S},
		{"h", 3600 * NS_PER_S}, {"d", 86400 * NS_PER_S}};
	uint64_t v;
	int r = parse_millionths(s, &s, &v);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strcmp(s, units[i].suffix) == 0)
			return scale_millionths(v, units[i].ns, ret);
	return -EINVAL;
}

uint64_t str_hash64(const char *s)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	while (*s)
		h = (h ^ (uint8_t)*s++) * UINT64_C(0x100000001b3);
	return h;
}

bool str_starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends_with(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

enum { NAME_MAX_BYTES = 64 };

/* How many characters of a name s begins with. */
static size_t name_span(const char *s)
{
	return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789._-");
}

bool str_is_name(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n <= NAME_MAX_BYTES && isalnum((unsigned char)s[0]) && name_span(s) == n;
}

bool str_is_tagged_name(const char *s)
{
	size_t n = name_span(s), tag = s[n] == ':' ? name_span(s + n + 1) : 0;

	if (!tag)
		return str_is_name(s);
	return n > 0 && isalnum((unsigned char)s[0]) && !s[n + 1 + tag] &&
	       n + 1 + tag <= NAME_MAX_BYTES;
}

void str_hex(const void *data, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *p = data;

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[p[i] >> 4];
		out[2 * i + 1] = digits[p[i] & 15];
	}
	out[2 * n] = '\0';
}

int str_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool str_from_hex(const char *text, size_t n, void *out)
{
	uint8_t *p = out;

	for (size_t i = 0; i < n; i++) {
		int high = str_hex_digit(text[2 * i]),
		    low = high < 0 ? -1 : str_hex_digit(text[2 * i + 1]);

		if (low < 0)
			return false;
		p[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

void str_uuid(uint8_t bytes[16], unsigned version, char out[STR_UUID_BYTES])
{
	char hex[33];

	bytes[6] = (uint8_t)((bytes[6] & 0x0f) | version << 4);
	bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);
	str_hex(bytes, 16, hex);
	(void)snprintf(out, STR_UUID_BYTES, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
		hex + 16, hex + 20); /* fits */
}

int str_random_uuid(char out[STR_UUID_BYTES])
{
	uint8_t b[16];

	if (getrandom(b, sizeof(b), 0) != sizeof(b))
		return -EIO; /* never for so few bytes, once the kernel has any */
	str_uuid(b, 4, out);
	return 0;
}

int str_random_id(char *out, size_t n)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	uint8_t random[32];
	size_t i = 0;

	while (i + 1 < n) {
		if (getrandom(random, sizeof(random), 0) != sizeof(random))
			return -EIO; /* as in str_random_uuid() */
		for (size_t k = 0; k < sizeof(random) && i + 1 < n; k++)
			if (random[k] < 252) /* 252 = 7 * 36, so all letters are equally likely */
				out[i++] = letters[random[k] % 36];
	}
	out[i] = '\0';
	return 0;
}

size_t str_cut(const char *s, size_t n, size_t max)
{
	if (n <= max)
		return n;
	while (max && ((unsigned char)s[max] & 0xc0) == 0x80)
		max--;
	return max;
}

const char *str_format_bytes(uint64_t bytes, char out[16])
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
	double v = (double)bytes;
	unsigned u = 0;

	while (v >= 1024 && u + 1 < ARRAY_SIZE(units)) {
		v /= 1024;
		u++;
	}
	(void)snprintf(out, 16, v < 10 && v != (double)(uint64_t)v ? "%.1f %s" : "%.0f %s", v,
		units[u]); /* at most 7 characters */
	return out;
}

char *str_printf(const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = vasprintf(&s, fmt, ap);
	va_end(ap);
	return r < 0 ? NULL : s;
}
