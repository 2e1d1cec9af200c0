#include "intercept/preview.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

enum {
	KEY_MIN = 24,	 /* a word of so many letters and digits counts as a key */
	HEX_MIN = 32,	 /* of one of hexadecimal digits */
	KNOWN_MIN = 12,	 /* of one that begins as keys do */
	CUT_KEY_MIN = 8, /* of one that goes on behind the preview */
	NOTE_MAX = 32,
};

struct job {
	const uint8_t *data;
	size_t n;
	bool hidden[PREVIEW_MAX];
};

static void hide(struct job *j, size_t from, size_t to)
{
	for (size_t i = from; i < to && i < j->n; i++)
		j->hidden[i] = true;
}

/* --- texts of the sandbox --- */

static void hide_text(struct job *j, const char *text, size_t bytes)
{
	const uint8_t *at = j->data, *end = j->data + j->n, *found;

	while (bytes && (found = memmem(at, (size_t)(end - at), text, bytes))) {
		hide(j, (size_t)(found - j->data), (size_t)(found - j->data) + bytes);
		at = found + bytes;
	}
}

static void hide_secrets(struct job *j, const struct intercept *i)
{
	for (unsigned n = 0; n < i->placeholder_count; n++)
		hide_text(j, i->placeholders[n].text, i->placeholders[n].bytes);
	for (unsigned n = 0; n < i->secret_count; n++)
		if (i->secrets[n].value.bytes >= INTERCEPT_SCRUB_MIN)
			hide_text(j, i->secrets[n].value.hidden, i->secrets[n].value.bytes);
}

/* --- members --- */

static bool is_letter(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

static bool is_word(uint8_t c)
{
	return is_letter(c) || is_digit(c) || c == '_' || c == '-';
}

static bool is_blank(uint8_t c)
{
	return c == ' ' || c == '\t';
}

static bool speaks_of_secrets(const uint8_t *word, size_t n)
{
	static const char *const parts[] = {"auth", "passw", "passphrase", "pwd", "secret", "token",
		"api_key", "apikey", "api-key", "access_key", "accesskey", "private_key",
		"privatekey", "credential", "cookie", "signature", "cvc", "cvv"};

	if (n >= 7 && strncasecmp((const char *)word + n - 7, "_tokens", 7) == 0)
		return false; /* a number of them, in requests to models */
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		for (size_t at = 0, bytes = strlen(parts[i]); at + bytes <= n; at++)
			if (strncasecmp((const char *)word + at, parts[i], bytes) == 0)
				return true;
	return false;
}

/* Returns the end of the value that begins here. A quoted value may have escapes. */
static size_t value_end(const struct job *j, size_t at, uint8_t quote, bool line)
{
	for (; at < j->n; at++) {
		uint8_t c = j->data[at];

		if (quote && c == '\\')
			at++;
		else if (quote ? c == quote : c == '\n' || c == '\r' || c == '&' || c == '}')
			return at;
		else if (!quote && !line && (is_blank(c) || c == ',' || c == ';'))
			return at;
	}
	return j->n;
}

/* Hides the value of the name that ends here, if there is one: "name": "value", name=value, and
 * name: value to the end of the line. */
static void hide_value(struct job *j, size_t at)
{
	bool quoted = at < j->n && (j->data[at] == '"' || j->data[at] == '\''), line;
	uint8_t quote = 0;

	at += quoted;
	while (at < j->n && is_blank(j->data[at]))
		at++;
	if (at >= j->n || (j->data[at] != ':' && j->data[at] != '='))
		return;
	line = j->data[at++] == ':' && !quoted;
	while (at < j->n && is_blank(j->data[at]))
		at++;
	if (at < j->n && (j->data[at] == '"' || j->data[at] == '\''))
		quote = j->data[at++];
	hide(j, at, value_end(j, at, quote, line));
}

/* --- keys --- */

static bool begins_as_key(const uint8_t *word, size_t n)
{
	static const char *const begins[] = {"sk-", "sk_", "pk_", "rk_", "ghp_", "gho_", "ghs_",
		"github_pat_", "glpat-", "xox", "AKIA", "ASIA", "AIza", "eyJ", "hf_", "npm_",
		"mfly_", "e2b_"};

	for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
		if (n >= strlen(begins[i]) && memcmp(word, begins[i], strlen(begins[i])) == 0)
			return true;
	return false;
}

static bool is_hex(uint8_t c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool looks_like_key(const uint8_t *word, size_t n, bool cut)
{
	bool upper = false, lower = false, digit = false, hex = true;

	for (size_t i = 0; i < n; i++) {
		upper |= word[i] >= 'A' && word[i] <= 'Z';
		lower |= word[i] >= 'a' && word[i] <= 'z';
		digit |= is_digit(word[i]);
		hex &= is_hex(word[i]);
	}
	if (begins_as_key(word, n))
		return n >= (cut ? CUT_KEY_MIN : KNOWN_MIN);
	if (cut && digit && (upper || lower))
		return n >= CUT_KEY_MIN;
	return digit && ((hex && n >= HEX_MIN) || (upper && lower && n >= KEY_MIN));
}

static void hide_words(struct job *j, bool cut)
{
	for (size_t at = 0, end; at < j->n; at = end + 1) {
		for (end = at; end < j->n && is_word(j->data[end]);)
			end++;
		if (looks_like_key(j->data + at, end - at, cut && end == j->n))
			hide(j, at, end);
		else if (speaks_of_secrets(j->data + at, end - at))
			hide_value(j, end);
	}
}

bool preview_is_secret_header(const char *name)
{
	return speaks_of_secrets((const uint8_t *)name, strlen(name));
}

/* --- text --- */

/* Returns the number of bytes of the UTF-8 character here if it may be shown, else 0. */
static size_t character(const uint8_t *p, size_t n)
{
	size_t bytes = *p < 0x80		 ? 1
		       : *p >= 0xc2 && *p < 0xe0 ? 2
		       : *p >= 0xe0 && *p < 0xf0 ? 3
		       : *p >= 0xf0 && *p < 0xf5 ? 4
						 : 0;

	if (bytes == 1)
		return (*p >= ' ' && *p != 0x7f) || *p == '\n' || *p == '\t';
	if (bytes > n || (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) ||
		(*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f))
		return 0;
	for (size_t i = 1; i < bytes; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return bytes;
}

/* Appends a whole piece, or nothing when the text is full. */
static int put(struct buf *out, const void *piece, size_t n)
{
	return buf_len(out) + n < out->max ? buf_add(out, piece, n) : -EMSGSIZE;
}

static int put_hidden(struct buf *out, size_t n)
{
	char note[NOTE_MAX];

	(void)snprintf(note, sizeof(note), "[%zu bytes hidden]", n); /* fits */
	return put(out, note, strlen(note));
}

static int put_text(const struct job *j, struct buf *out)
{
	int r = 0;

	for (size_t at = 0, n; r == 0 && at < j->n; at += n) {
		for (n = 0; at + n < j->n && j->hidden[at + n];)
			n++;
		if (n) {
			r = put_hidden(out, n);
			continue;
		}
		n = character(j->data + at, j->n - at);
		r = n ? put(out, j->data + at, n) : put(out, ".", 1);
		n = n ? n : 1;
	}
	return r;
}

int preview_write(const void *data, size_t n, bool cut, const struct intercept *i, struct buf *out)
{
	struct job j = {.data = data, .n = n < PREVIEW_MAX ? n : PREVIEW_MAX};
	int r;

	if (i)
		hide_secrets(&j, i);
	hide_words(&j, cut || n > PREVIEW_MAX);
	r = put_text(&j, out);
	if (r == 0 || r == -EMSGSIZE)
		r = buf_add(out, "", 1); /* put leaves a place for it */
	return r;
}
