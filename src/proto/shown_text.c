#include "proto/shown_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

enum script {
	NOTHING, /* is escaped */
	COMMON,	 /* of no script, and in words */
	MARK,	 /* stays, and ends a word */
	LATIN,
	GREEK,
	CYRILLIC,
	ARMENIAN,
	INDIC, /* Devanagari up to Malayalam; each has blocks of 128 */
	THAI,
	GEORGIAN,
	HANGUL,
	HIRAGANA,
	KATAKANA,
	HAN,
};

/* In order. */
static const struct range {
	uint32_t from, to;
	enum script script;
} ranges[] = {
	{' ', '/', MARK},
	{'0', '9', COMMON},
	{':', '@', MARK},
	{'A', 'Z', LATIN},
	{'[', '^', MARK},
	{'_', '_', COMMON},
	{'`', '`', MARK},
	{'a', 'z', LATIN},
	{'{', '~', MARK},
	{0xa3, 0xa3, MARK}, /* pound and yen */
	{0xa5, 0xa5, MARK},
	{0xc0, 0xd6, LATIN},
	{0xd8, 0xf6, LATIN},
	{0xf8, 0x130, LATIN}, /* without the i that has no dot */
	{0x132, 0x148, LATIN},
	{0x14a, 0x17e, LATIN}, /* without the long s */
	{0x180, 0x1bf, LATIN},
	{0x1c4, 0x24f, LATIN},
	{0x386, 0x386, GREEK},
	{0x388, 0x38a, GREEK},
	{0x38c, 0x38c, GREEK},
	{0x38e, 0x3a1, GREEK},
	{0x3a3, 0x3ce, GREEK},
	{0x400, 0x45f, CYRILLIC},
	{0x48a, 0x4ff, CYRILLIC},
	{0x531, 0x556, ARMENIAN},
	{0x561, 0x587, ARMENIAN},
	{0x900, 0xd7f, INDIC},
	{0xe01, 0xe3a, THAI},
	{0xe40, 0xe4e, THAI},
	{0x10d0, 0x10fa, GEORGIAN},
	{0x1e00, 0x1eff, LATIN},
	{0x20ac, 0x20ac, MARK}, /* euro */
	{0x3001, 0x3002, MARK},
	{0x3005, 0x3005, HAN},
	{0x300c, 0x300d, MARK},
	{0x3041, 0x3096, HIRAGANA},
	{0x30a1, 0x30fa, KATAKANA},
	{0x30fc, 0x30fc, KATAKANA},
	{0x3400, 0x4dbf, HAN},
	{0x4e00, 0x9fff, HAN},
	{0xac00, 0xd7a3, HANGUL},
};

/* Letters that look like Latin ones, in order: pairs of first and last. */
static const uint16_t alike[][2] = {
	{0x391, 0x392},
	{0x395, 0x397},
	{0x399, 0x39a},
	{0x39c, 0x39d},
	{0x39f, 0x39f},
	{0x3a1, 0x3a1},
	{0x3a4, 0x3a5},
	{0x3a7, 0x3a7},
	{0x3b1, 0x3b1},
	{0x3b3, 0x3b3},
	{0x3b9, 0x3ba},
	{0x3bd, 0x3bd},
	{0x3bf, 0x3bf},
	{0x3c1, 0x3c1},
	{0x3c4, 0x3c5},
	{0x3c7, 0x3c7},
	{0x405, 0x406},
	{0x408, 0x408},
	{0x410, 0x410},
	{0x412, 0x412},
	{0x415, 0x415},
	{0x41a, 0x41a},
	{0x41c, 0x41e},
	{0x420, 0x423},
	{0x425, 0x425},
	{0x430, 0x430},
	{0x435, 0x435},
	{0x43a, 0x43a},
	{0x43e, 0x43e},
	{0x440, 0x441},
	{0x443, 0x443},
	{0x445, 0x445},
	{0x455, 0x456},
	{0x458, 0x458},
	{0x474, 0x475},
	{0x4ae, 0x4af},
	{0x4ba, 0x4bb},
	{0x4c0, 0x4c0},
	{0x4cf, 0x4cf},
};

static enum script script_of(uint32_t c)
{
	size_t low = 0, high = ARRAY_SIZE(ranges);

	while (low < high) {
		size_t at = (low + high) / 2;

		if (c > ranges[at].to)
			low = at + 1;
		else if (c < ranges[at].from)
			high = at;
		else
			return ranges[at].script;
	}
	return NOTHING;
}

static bool looks_latin(uint32_t c)
{
	for (size_t i = 0; i < ARRAY_SIZE(alike) && alike[i][0] <= c; i++)
		if (c <= alike[i][1])
			return true;
	return false;
}

/* Reads the character of UTF-8 here. Returns its bytes, or 0 if there is none. */
static size_t decode(const uint8_t *p, size_t n, uint32_t *ret)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t bytes = *p < 0x80 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
	uint32_t c = bytes == 1 ? *p : bytes == 2 ? *p & 0x1f : bytes == 3 ? *p & 0xf : *p & 7;

	if (bytes == 0 || bytes > n || *p >= 0xf5)
		return 0;
	for (size_t i = 1; i < bytes; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	*ret = c;
	return bytes == 1 || (c >= least[bytes] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff))
		       ? bytes
		       : 0;
}

/* --- words --- */

static bool is_one_script(uint32_t scripts)
{
	uint32_t japanese = 1u << HAN | 1u << HIRAGANA | 1u << KATAKANA;
	uint32_t korean = 1u << HAN | 1u << HANGUL;

	return (scripts & (scripts - 1)) == 0 || (scripts & ~japanese) == 0 ||
	       (scripts & ~korean) == 0;
}

/* Whether the letters of the word that begins here may stay. */
static bool is_plain_word(const uint8_t *p, size_t n, size_t *ret_bytes)
{
	uint32_t c, scripts = 0, block = 0;
	bool alike_only = true, mixed = false;
	size_t at = 0, bytes;

	for (; at < n && (bytes = decode(p + at, n - at, &c)); at += bytes) {
		enum script s = script_of(c);

		if (s == MARK || s == NOTHING)
			break;
		if (s == COMMON)
			continue;
		scripts |= 1u << s;
		alike_only = alike_only && looks_latin(c);
		mixed = mixed || (s == INDIC && block && block != c >> 7);
		block = s == INDIC ? c >> 7 : block;
	}
	*ret_bytes = at;
	return scripts && !mixed && is_one_script(scripts) && !alike_only;
}

/* --- characters --- */

/* Appends a whole piece, or nothing when the text is full. */
static int put(struct buf *out, const void *piece, size_t n)
{
	return buf_len(out) + n < out->max ? buf_add(out, piece, n) : -EMSGSIZE;
}

static int put_number(struct buf *out, char kind, uint32_t c)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "\\%c{%x}", kind, (unsigned)c); /* fits */
	return put(out, text, strlen(text));
}

static int put_ascii(struct buf *out, char c, unsigned how)
{
	char escaped[2] = {'\\', c == '\n' ? 'n' : c == '\t' ? 't' : c};

	if (c == '\n' || c == '\t')
		return how & SHOWN_TEXT_LINES ? put(out, &c, 1) : put(out, escaped, 2);
	if (c < ' ' || c == 0x7f)
		return put_number(out, 'u', (uint8_t)c);
	if (how & SHOWN_TEXT_QUOTED && (c == '"' || c == '\\'))
		return put(out, escaped, 2);
	return put(out, &c, 1);
}

/* Returns how many bytes here are printable ASCII that stays, in whole words; most text is. */
static size_t plain_run(const uint8_t *p, size_t n, unsigned how)
{
	size_t at = 0;

	while (at < n && p[at] >= ' ' && p[at] < 0x7f &&
		!(how & SHOWN_TEXT_QUOTED && (p[at] == '"' || p[at] == '\\')))
		at++;
	return at == n || p[at] < 0x80 ? at : 0;
}

static int put_run(struct buf *out, const uint8_t *p, size_t n)
{
	size_t len = buf_len(out), room = len < out->max ? out->max - 1 - len : 0;
	int r = buf_add(out, p, n < room ? n : room);

	return r || n <= room ? r : -EMSGSIZE;
}

int shown_text_add(struct buf *out, const void *text, size_t n, unsigned how)
{
	const uint8_t *p = text;
	size_t word = 0; /* bytes of it that are left */
	bool plain = false;
	int r = 0;

	for (size_t at = 0, bytes; r == 0 && at < n; at += bytes) {
		uint32_t c = 0;

		bytes = word ? 0 : plain_run(p + at, n - at, how);
		if (bytes) {
			r = put_run(out, p + at, bytes);
			continue;
		}
		bytes = decode(p + at, n - at, &c);
		if (word == 0 && bytes)
			plain = is_plain_word(p + at, n - at, &word);
		if (bytes == 0)
			r = put_number(out, 'x', p[at]);
		else if (bytes == 1)
			r = put_ascii(out, (char)c, how);
		else if (script_of(c) == MARK || (plain && script_of(c) != NOTHING))
			r = put(out, p + at, bytes);
		else
			r = put_number(out, 'u', c);
		bytes = bytes ? bytes : 1;
		word = word > bytes ? word - bytes : 0;
	}
	return r;
}

char *shown_text_make(const char *text, size_t n, size_t max, unsigned how)
{
	struct buf b = BUF_INIT(max + 1);
	int r = shown_text_add(&b, text, n, how);
	char *made = NULL;

	if ((r == 0 || r == -EMSGSIZE) && buf_add(&b, "", 1) == 0)
		made = strdup((const char *)buf_head(&b));
	buf_done(&b);
	return made;
}
