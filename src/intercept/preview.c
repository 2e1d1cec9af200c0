#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "intercept/preview_internal.h"
#include "intercept/secret_name.h"
#include "proto/shown_text.h"

enum {
	NOTE_MAX = 32,
	BLANKS_MAX = 8, /* in a row, that are shown */
};

struct job {
	const uint8_t *data;
	size_t n;
	struct preview *preview;
	bool hidden[PREVIEW_MAX]; /* of the first n bytes */
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

/* --- words --- */

static bool is_word(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}

static bool is_blank(uint8_t c)
{
	return c == ' ' || c == '\t';
}

static size_t skip_blanks(const struct job *j, size_t at)
{
	while (at < j->n && is_blank(j->data[at]))
		at++;
	return at;
}

/* Never behind the next blank: what follows may be another's. */
static size_t word_end(const struct job *j, size_t at, uint8_t quote)
{
	for (; at < j->n; at++) {
		uint8_t c = j->data[at];

		if (c == quote || c <= ' ' || c == '&')
			break;
		if (!quote && (c == ',' || c == ';' || c == '}' || c == '"'))
			break;
	}
	return at;
}

/* "Bearer x" is two words. */
static bool is_scheme(const struct job *j, size_t at, size_t end)
{
	static const char *const schemes[] = {"basic", "bearer", "digest", "token"};

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (end - at == strlen(schemes[i]) &&
			strncasecmp((const char *)j->data + at, schemes[i], end - at) == 0)
			return true;
	return false;
}

/* Hides the value of the name that ends here, if there is one: "name": "value", name=value, and
 * name: value. */
static bool hide_value(struct job *j, size_t at)
{
	bool quoted = at < j->n && (j->data[at] == '"' || j->data[at] == '\'');
	uint8_t quote = 0;
	size_t end;

	at = skip_blanks(j, at + quoted);
	if (at >= j->n || (j->data[at] != ':' && j->data[at] != '='))
		return false;
	at = skip_blanks(j, at + 1);
	if (at < j->n && (j->data[at] == '"' || j->data[at] == '\''))
		quote = j->data[at++];
	end = word_end(j, at, quote);
	if (is_scheme(j, at, end))
		end = word_end(j, skip_blanks(j, end), quote);
	hide(j, at, end);
	return end > at;
}

static void hide_words(struct job *j, unsigned how)
{
	for (size_t at = 0, end; at < j->n; at = end + 1) {
		const char *word = (const char *)j->data + at;
		bool cut;

		for (end = at; end < j->n && is_word(j->data[end]);)
			end++;
		cut = how & PREVIEW_CUT && end == j->n;
		if (how & PREVIEW_STRICT ? secret_word_is_known(word, end - at, cut)
					 : secret_word_is_likely(word, end - at, cut))
			hide(j, at, end);
		else if (!(how & PREVIEW_STRICT) && secret_name_is(word, end - at) &&
			 hide_value(j, end))
			preview_note_name(j->preview, word, end - at);
	}
}

/* --- text --- */

void preview_note_name(struct preview *p, const char *name, size_t n)
{
	struct buf b = BUF_INIT(PREVIEW_NAME_MAX + 1);

	(void)shown_text_add(&b, name, n, 0); /* or is cut */
	if (buf_add(&b, "", 1) < 0)
		buf_clear(&b);
	for (unsigned i = 0; buf_len(&b) && i < p->name_count; i++)
		if (strcmp(p->names[i], (const char *)buf_head(&b)) == 0)
			buf_clear(&b);
	if (buf_len(&b) && p->name_count < PREVIEW_NAMES_MAX)
		memcpy(p->names[p->name_count++], buf_head(&b), buf_len(&b));
	buf_done(&b);
}

int preview_put_hidden(struct buf *out, size_t n)
{
	char note[NOTE_MAX];
	int bytes = snprintf(note, sizeof(note), "[%zu bytes hidden]", n); /* fits */

	return buf_len(out) + (size_t)bytes < out->max ? buf_add(out, note, (size_t)bytes)
						       : -EMSGSIZE;
}

static int put_text(const struct job *j, unsigned how, struct buf *out)
{
	int r = 0;

	for (size_t at = 0, n; at < j->n; at += n) {
		bool hidden = j->hidden[at];

		for (n = 0; at + n < j->n && j->hidden[at + n] == hidden;)
			n++;
		if (hidden)
			j->preview->hidden += n;
		if (r == 0)
			r = hidden ? preview_put_hidden(out, n)
				   : shown_text_add(out, j->data + at, n, how);
	}
	return r;
}

int preview_put(struct buf *out, const void *data, size_t n, unsigned how,
	const struct intercept *i, struct preview *p)
{
	struct job j;

	j.data = data;
	j.n = n < PREVIEW_MAX ? n : PREVIEW_MAX;
	j.preview = p;
	memset(j.hidden, 0, j.n);
	if (i)
		hide_secrets(&j, i);
	hide_words(&j, how | (n > PREVIEW_MAX ? PREVIEW_CUT : 0));
	return put_text(&j, how & (SHOWN_TEXT_LINES | SHOWN_TEXT_QUOTED), out);
}

/* --- whole previews --- */

static int end(struct buf *out, int r)
{
	return r == 0 || r == -EMSGSIZE ? buf_add(out, "", 1) /* there is a place for it */ : r;
}

int preview_write(const void *data, size_t n, const struct intercept *i, struct buf *out)
{
	struct preview ignored = {.bytes = 0};
	int cut = preview_put(out, data, n, 0, i, &ignored), r = end(out, cut);

	return r ? r : cut == -EMSGSIZE || n > PREVIEW_MAX;
}

/* Copies at most PREVIEW_MAX bytes, and of blanks in a row only the first ones. Returns how many;
 * *used is how many were read. */
static size_t squeeze(const uint8_t *data, size_t n, uint8_t to[PREVIEW_MAX], size_t *used)
{
	size_t bytes = 0, row = 0, at = 0;

	for (; at < n && bytes < PREVIEW_MAX; at++) {
		bool blank = is_blank(data[at]) || data[at] == '\n' || data[at] == '\r';

		row = blank ? row + 1 : 0;
		if (row <= BLANKS_MAX)
			to[bytes++] = data[at];
	}
	*used = at;
	return bytes;
}

static int put_as_text(struct buf *out, const void *data, size_t n, bool more,
	const struct intercept *i, struct preview *p)
{
	uint8_t text[PREVIEW_MAX];
	size_t used, bytes = squeeze(data, n, text, &used);
	bool cut = more || used < n;
	int r;

	p->bytes = bytes;
	r = preview_put(out, text, bytes, SHOWN_TEXT_LINES | (cut ? PREVIEW_CUT : 0), i, p);
	p->cut = cut || r == -EMSGSIZE;
	return r;
}

static bool may_be_json(const uint8_t *data, size_t n)
{
	size_t at = 0;

	while (at < n && (is_blank(data[at]) || data[at] == '\n' || data[at] == '\r'))
		at++;
	return at < n && (data[at] == '{' || data[at] == '[');
}

int preview_write_body(const void *data, size_t n, bool more, const struct intercept *i,
	struct buf *out, struct preview *ret)
{
	size_t before = buf_len(out);
	int r = -EINVAL;

	*ret = (struct preview){.bytes = 0};
	if (!more && may_be_json(data, n))
		r = preview_put_json(out, data, n, i, ret);
	if (r == -EINVAL) {
		out->end -= buf_len(out) - before;
		*ret = (struct preview){.bytes = 0};
		r = put_as_text(out, data, n, more, i, ret);
	}
	return end(out, r);
}
