#include "dockerfile/expand.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum { NAME_MAX_BYTES = 255 };

struct walk {
	const struct expand_scope *scope;
	const char *p;
	struct buf *out;
	bool plain; /* quotes mean nothing */
	unsigned depth;
	struct error *e;
};

static int bad(struct walk *w, const char *what)
{
	return error_set(w->e, ERROR_USAGE, EINVAL, "%s", what);
}

static int put(struct walk *w, const char *s, size_t n)
{
	int r = buf_add(w->out, s, n);

	if (r == -EMSGSIZE)
		return error_set(w->e, ERROR_LIMIT, EFBIG, "%s becomes longer than %zu bytes",
			w->plain ? "a text" : "a word", w->out->max - 1);
	return r < 0 ? error_set(w->e, ERROR_NO_SPACE, ENOMEM, "out of memory") : 0;
}

static bool is_special(char c)
{
	return c && strchr("@*#?-$!", c);
}

/* Reads the name of a variable; "" when there is none. */
static int read_name(struct walk *w, char out[NAME_MAX_BYTES + 1])
{
	size_t n = 0;

	if (is_special(*w->p)) {
		n = 1;
	} else if (isdigit((unsigned char)*w->p)) {
		while (isdigit((unsigned char)w->p[n]))
			n++;
	} else {
		while (isalnum((unsigned char)w->p[n]) || w->p[n] == '_')
			n++;
	}
	if (n > NAME_MAX_BYTES)
		return bad(w, "the name of a variable is longer than 255 bytes");
	memcpy(out, w->p, n);
	out[n] = '\0';
	w->p += n;
	return 0;
}

static int walk_until(struct walk *w, char stop);

/* The word after a modifier, up to `}`; malloc'ed. */
static int read_inner(struct walk *w, char **ret)
{
	struct buf inner = BUF_INIT(EXPAND_BYTES_MAX + 1), *outer = w->out;
	int r;

	if (w->depth == EXPAND_DEPTH_MAX)
		return bad(w, "substitutions are nested too deeply");
	w->depth++;
	w->out = &inner;
	r = walk_until(w, '}');
	if (r == 0)
		r = put(w, "", 1);
	w->out = outer;
	w->depth--;
	if (r < 0)
		buf_done(&inner);
	else
		*ret = (char *)inner.data; /* nothing was consumed */
	return r;
}

static int apply(struct walk *w, const char *name, char modifier, bool or_empty, const char *inner)
{
	const char *value = w->scope->get(w->scope->opaque, name);
	bool set = value && (!or_empty || *value);

	if (modifier == '?' && !set)
		return error_set(w->e, ERROR_USAGE, EINVAL, "%.80s: %.200s", name,
			*inner ? inner : "is not set");
	if (modifier == '+')
		value = set ? inner : "";
	else if (!set)
		value = inner;
	return put(w, value, strlen(value));
}

/* What follows `${`. */
static int walk_braces(struct walk *w)
{
	char name[NAME_MAX_BYTES + 1], modifier;
	bool or_empty;
	char *inner = NULL;
	int r = read_name(w, name);

	if (r < 0)
		return r;
	if (!*name)
		return bad(w, "bad substitution: ${ needs the name of a variable");
	or_empty = *w->p == ':';
	modifier = w->p[or_empty];
	if (modifier == '}' && !or_empty) {
		w->p++;
		return apply(w, name, '-', false, "");
	}
	if (!modifier)
		return bad(w, "bad substitution: ${ has no }");
	if (!strchr("-+?", modifier))
		return error_set(w->e, ERROR_USAGE, EINVAL,
			"bad substitution: ${%.60s with `%s%c` is not supported, only - + ? and "
			":- :+ :?",
			name, or_empty ? ":" : "", modifier);
	w->p += or_empty + 1;
	r = read_inner(w, &inner);
	if (r == 0)
		r = apply(w, name, modifier, or_empty, inner);
	free(inner);
	return r;
}

static int walk_dollar(struct walk *w)
{
	char name[NAME_MAX_BYTES + 1];
	int r;

	w->p++;
	if (*w->p == '{') {
		w->p++;
		return walk_braces(w);
	}
	r = read_name(w, name);
	if (r < 0)
		return r;
	return *name ? apply(w, name, '-', false, "") : put(w, "$", 1);
}

static int walk_single(struct walk *w)
{
	const char *begin = ++w->p, *end = strchr(begin, '\'');

	if (!end)
		return bad(w, "a single quote is not closed");
	w->p = end + 1;
	return put(w, begin, (size_t)(end - begin));
}

/* In double quotes an escape character makes `"`, `$` and itself plain; outside quotes it makes any
 * character plain. At the end of a word it has no meaning. */
static int walk_escape(struct walk *w, bool quoted)
{
	char next = w->p[1];
	int r = 0;

	if (!next) {
		w->p++;
		return 0;
	}
	if (quoted && next != '"' && next != '$' && next != w->scope->escape)
		r = put(w, w->p, 1);
	if (r == 0)
		r = put(w, &next, 1);
	w->p += 2;
	return r;
}

static int walk_double(struct walk *w)
{
	int r = 0;

	w->p++;
	while (r == 0 && *w->p != '"') {
		if (!*w->p)
			return bad(w, "a double quote is not closed");
		if (*w->p == '$') {
			r = walk_dollar(w);
		} else if (*w->p == w->scope->escape) {
			r = walk_escape(w, true);
		} else {
			r = put(w, w->p, 1);
			w->p++;
		}
	}
	w->p += r == 0;
	return r;
}

static int walk_until(struct walk *w, char stop)
{
	int r = 0;

	while (r == 0 && *w->p && *w->p != stop) {
		if (*w->p == '\'' && !w->plain) {
			r = walk_single(w);
		} else if (*w->p == '"' && !w->plain) {
			r = walk_double(w);
		} else if (*w->p == '$') {
			r = walk_dollar(w);
		} else if (*w->p == w->scope->escape) {
			r = walk_escape(w, false);
		} else {
			r = put(w, w->p, 1);
			w->p++;
		}
	}
	if (r == 0 && stop && *w->p != stop)
		return bad(w, "bad substitution: ${ has no }");
	w->p += r == 0 && stop;
	return r;
}

static int expand(
	const struct expand_scope *s, const char *text, bool plain, char **ret, struct error *e)
{
	struct buf out = BUF_INIT((plain ? EXPAND_TEXT_MAX : EXPAND_BYTES_MAX) + 1);
	struct walk w = {.scope = s, .p = text, .out = &out, .plain = plain, .e = e};
	int r = walk_until(&w, '\0');

	if (r == 0)
		r = put(&w, "", 1);
	if (r < 0)
		buf_done(&out);
	else
		*ret = (char *)out.data; /* nothing was consumed */
	return r;
}

int expand_word(const struct expand_scope *s, const char *word, char **ret, struct error *e)
{
	return expand(s, word, false, ret, e);
}

int expand_text(const struct expand_scope *s, const char *text, char **ret, struct error *e)
{
	return expand(s, text, true, ret, e);
}
