#include "dockerfile/source.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"

static int out_of_memory(struct error *e)
{
	return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* A line of the file, without what ends it. */
struct raw {
	const char *p;
	size_t n;
};

/* Takes the next line; false at the end. */
static bool take_line(struct source *s, struct raw *ret)
{
	const char *newline;
	size_t left = (size_t)(s->end - s->at);

	if (left == 0)
		return false;
	newline = memchr(s->at, '\n', left);
	ret->p = s->at;
	ret->n = newline ? (size_t)(newline - s->at) : left;
	s->at += ret->n + (newline != NULL);
	if (ret->n && ret->p[ret->n - 1] == '\r')
		ret->n--;
	s->line++;
	return true;
}

static struct raw strip_left(struct raw l)
{
	while (l.n && is_blank(*l.p)) {
		l.p++;
		l.n--;
	}
	return l;
}

static bool is_comment(struct raw l)
{
	l = strip_left(l);
	return l.n && *l.p == '#';
}

/* --- directives --- */

struct directive {
	char name[16];
	struct raw value;
};

/* "# name = value". */
static bool read_directive(struct raw l, struct directive *ret)
{
	size_t n = 0;

	l = strip_left(l);
	if (!l.n || *l.p != '#')
		return false;
	l = strip_left((struct raw){l.p + 1, l.n - 1});
	while (n < l.n && n < sizeof(ret->name) - 1 && isalnum((unsigned char)l.p[n]))
		n++;
	memcpy(ret->name, l.p, n);
	ret->name[n] = '\0';
	l = strip_left((struct raw){l.p + n, l.n - n});
	if (n == 0 || !l.n || *l.p != '=')
		return false;
	ret->value = strip_left((struct raw){l.p + 1, l.n - 1});
	while (ret->value.n && is_blank(ret->value.p[ret->value.n - 1]))
		ret->value.n--;
	return ret->value.n > 0;
}

static bool begins(struct raw l, const char *with)
{
	return l.n >= strlen(with) && memcmp(l.p, with, strlen(with)) == 0;
}

static int set_escape(struct source *s, struct raw v, struct error *e)
{
	if (v.n != 1 || (*v.p != '\\' && *v.p != '`'))
		return error_set(e, ERROR_USAGE, EINVAL,
			"line %u: the directive `escape` must be \\ or `", s->line);
	s->escape = *v.p;
	return 1;
}

static int check_syntax(const struct source *s, struct raw v, struct error *e)
{
	if (begins(v, "docker.io/"))
		v = (struct raw){v.p + 10, v.n - 10};
	if (begins(v, "docker/dockerfile:") || begins(v, "docker/dockerfile-upstream:") ||
		(v.n == 17 && begins(v, "docker/dockerfile")))
		return 1;
	return error_set(e, ERROR_USAGE, EINVAL,
		"line %u: the directive `syntax` names %.*s: only docker/dockerfile is supported, "
		"and no other frontend is run",
		s->line, (int)(v.n < 100 ? v.n : 100), v.p);
}

/* Returns 1 if the line is a directive, else 0. `seen` has a bit for each directive that came. */
static int take_directive(struct source *s, struct raw l, unsigned *seen, struct error *e)
{
	static const char *const names[] = {"syntax", "escape", "check"};
	struct directive d;

	if (!read_directive(l, &d))
		return 0;
	for (unsigned i = 0; i < 3; i++) {
		if (strcasecmp(d.name, names[i]) != 0)
			continue;
		if (*seen & 1u << i)
			return error_set(e, ERROR_USAGE, EINVAL,
				"line %u: the directive `%s` is given twice", s->line, names[i]);
		*seen |= 1u << i;
		return i == 0	? check_syntax(s, d.value, e)
		       : i == 1 ? set_escape(s, d.value, e)
				: 1;
	}
	return 0;
}

static int take_directives(struct source *s, struct error *e)
{
	unsigned seen = 0;
	int r;

	for (;;) {
		struct source before = *s;
		struct raw l;

		if (!take_line(s, &l))
			return 0;
		r = take_directive(s, l, &seen, e);
		if (r < 0)
			return r;
		if (r == 0) {
			before.escape = s->escape;
			*s = before;
			return 0;
		}
	}
}

static size_t count_lines(const char *p, size_t n)
{
	size_t lines = 0;

	for (size_t i = 0; i < n; i++)
		lines += p[i] == '\n';
	return lines;
}

int source_open(struct source *s, struct arena *a, const char *text, size_t n, struct error *e)
{
	*s = (struct source){.arena = a, .at = text, .end = text + n, .escape = '\\'};
	if (n > SOURCE_BYTES_MAX)
		return error_set(e, ERROR_LIMIT, EFBIG, "the Dockerfile is larger than 1 MiB");
	if (count_lines(text, n) > SOURCE_LINES_MAX)
		return error_set(e, ERROR_LIMIT, EFBIG, "the Dockerfile has more than %d lines",
			SOURCE_LINES_MAX);
	if (memchr(text, '\0', n))
		return error_set(
			e, ERROR_USAGE, EINVAL, "the Dockerfile is not text: it has a NUL byte");
	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		s->at += 3;
	return take_directives(s, e);
}

/* --- instructions --- */

/* Whether a line continues in the next one: it ends with one escape character, but not with two.
 * Removes that character. */
static bool cut_continuation(const struct source *s, struct raw *l)
{
	size_t n = l->n;

	while (n && (l->p[n - 1] == ' ' || l->p[n - 1] == '\t'))
		n--;
	if (n == 0 || l->p[n - 1] != s->escape || (n > 1 && l->p[n - 2] == s->escape))
		return false;
	l->n = n - 1;
	return true;
}

static int add(const struct source *s, struct buf *text, struct raw l, struct error *e)
{
	int r = buf_add(text, l.p, l.n);

	if (r == -EMSGSIZE)
		return error_set(e, ERROR_LIMIT, EFBIG,
			"line %u: the instruction is longer than %d bytes", s->line,
			SOURCE_INSTRUCTION_MAX);
	return r < 0 ? out_of_memory(e) : 0;
}

/* Adds the lines that continue an instruction. Comments and empty lines among them do not count. */
static int add_continued(struct source *s, struct buf *text, struct error *e)
{
	bool more = true;
	struct raw l;
	int r = 0;

	while (r == 0 && more && take_line(s, &l)) {
		if (is_comment(l) || strip_left(l).n == 0)
			continue;
		more = cut_continuation(s, &l);
		r = add(s, text, l, e);
	}
	return r;
}

static int finish(struct source *s, const struct buf *text, const char **ret, struct error *e)
{
	size_t n = buf_len(text);
	const char *p = (const char *)buf_head(text);

	while (n && is_blank(p[n - 1]))
		n--;
	*ret = arena_copy(s->arena, n ? p : "", n);
	return *ret ? (n > 0) : out_of_memory(e);
}

int source_next(struct source *s, const char **ret, unsigned *ret_line, struct error *e)
{
	struct raw l;
	int r = 0;

	while (r == 0 && take_line(s, &l)) {
		struct buf text = BUF_INIT(SOURCE_INSTRUCTION_MAX);
		bool more;

		l = strip_left(l);
		if (l.n == 0 || *l.p == '#')
			continue;
		*ret_line = s->line;
		more = cut_continuation(s, &l);
		r = add(s, &text, l, e);
		if (r == 0 && more)
			r = add_continued(s, &text, e);
		if (r == 0)
			r = finish(s, &text, ret, e);
		buf_done(&text);
	}
	return r;
}

int source_heredoc(
	struct source *s, const char *name, bool strip_tabs, const char **ret, struct error *e)
{
	struct buf text = BUF_INIT(SOURCE_BYTES_MAX);
	unsigned begin = s->line;
	struct raw l;
	int r = 0;

	while (r == 0 && take_line(s, &l)) {
		while (strip_tabs && l.n && *l.p == '\t') {
			l.p++;
			l.n--;
		}
		if (l.n == strlen(name) && memcmp(l.p, name, l.n) == 0) {
			*ret = arena_copy(s->arena,
				buf_len(&text) ? (const char *)buf_head(&text) : "",
				buf_len(&text));
			buf_done(&text);
			return *ret ? 0 : out_of_memory(e);
		}
		r = buf_add(&text, l.p, l.n);
		if (r == 0)
			r = buf_add(&text, "\n", 1);
	}
	buf_done(&text);
	if (r < 0)
		return out_of_memory(e);
	return error_set(e, ERROR_USAGE, EINVAL,
		"line %u: the heredoc has no end: end it with a line that is just %.60s", begin,
		name);
}
