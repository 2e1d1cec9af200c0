#include "dockerfile/pattern.h"

#include <stddef.h>
#include <string.h>

/* Returns the end of a class, behind its `]`, or NULL if it is not closed or empty. */
static const char *class_end(const char *p)
{
	const char *begin;

	p++;
	p += *p == '^';
	begin = p;
	while (*p && (*p != ']' || p == begin)) {
		if (*p == '\\' && p[1])
			p++;
		p++;
	}
	return *p ? p + 1 : NULL;
}

/* Takes a character of a class, and what is after it. */
static unsigned char class_char(const char **p)
{
	if (**p == '\\')
		(*p)++;
	return (unsigned char)*(*p)++;
}

static bool in_class(const char *p, char c)
{
	const char *end = class_end(p) - 1;
	bool negated = p[1] == '^', found = false;

	p += 1 + negated;
	while (p < end) {
		unsigned char low = class_char(&p), high = low;

		if (*p == '-' && p + 1 < end) {
			p++;
			high = class_char(&p);
		}
		found |= (unsigned char)c >= low && (unsigned char)c <= high;
	}
	return c != '/' && found != negated;
}

bool pattern_valid(const char *pattern)
{
	const char *p = pattern;

	if (strlen(pattern) > PATTERN_MAX)
		return false;
	while (p && *p) {
		if (*p == '\\') {
			p++;
			if (!*p)
				return false;
			p++;
		} else {
			p = *p == '[' ? class_end(p) : p + 1;
		}
	}
	return p != NULL;
}

bool pattern_is_plain(const char *pattern)
{
	return !strpbrk(pattern, "*?[\\");
}

/* --- matching: all ways through the pattern at once --- */

enum token {
	TOKEN_CHAR,
	TOKEN_ONE,     /* ? */
	TOKEN_CLASS,   /* [...] */
	TOKEN_NAME,    /* *: anything in a name */
	TOKEN_PATH,    /* ** at the end: anything */
	TOKEN_FOLDERS, /* ** before something: nothing, or folders with their slash */
	TOKEN_END,
};

struct program {
	struct {
		enum token kind;
		const char *at; /* a class, or the character */
	} tokens[PATTERN_MAX + 1];
	bool now[PATTERN_MAX + 1],
		next[PATTERN_MAX + 1]; /* tokens that the next character may be of */
	size_t count;
};

static enum token classify(const char **p, bool folders)
{
	if (**p == '?')
		return TOKEN_ONE;
	if (**p == '[')
		return TOKEN_CLASS;
	if (**p == '\\')
		(*p)++;
	else if (**p == '*' && folders && (*p)[1] == '*')
		return (*p)[2 + ((*p)[2] == '/')] ? TOKEN_FOLDERS : TOKEN_PATH;
	else if (**p == '*')
		return TOKEN_NAME;
	return TOKEN_CHAR;
}

static const char *after_token(enum token kind, const char *p)
{
	if (kind == TOKEN_CLASS)
		return class_end(p);
	if (kind == TOKEN_FOLDERS || kind == TOKEN_PATH)
		return p + 2 + (p[2] == '/');
	return p + 1;
}

static void compile(struct program *g, const char *p, bool folders)
{
	while (*p) {
		enum token kind = classify(&p, folders);

		g->tokens[g->count].kind = kind;
		g->tokens[g->count++].at = p;
		p = after_token(kind, p);
	}
	g->tokens[g->count].kind = TOKEN_END;
}

/* Marks a token as reached, and the tokens behind it as long as they may match nothing. If a token
 * is marked already, so are those. */
static void enter(const struct program *g, bool *set, size_t i)
{
	for (; !set[i]; i++) {
		set[i] = true;
		if (g->tokens[i].kind < TOKEN_NAME || g->tokens[i].kind > TOKEN_FOLDERS)
			return;
	}
}

static void step(struct program *g, size_t i, char c)
{
	switch (g->tokens[i].kind) {
	case TOKEN_CHAR:
		if (*g->tokens[i].at == c)
			enter(g, g->next, i + 1);
		break;
	case TOKEN_ONE:
		if (c != '/')
			enter(g, g->next, i + 1);
		break;
	case TOKEN_CLASS:
		if (in_class(g->tokens[i].at, c))
			enter(g, g->next, i + 1);
		break;
	case TOKEN_NAME:
		if (c != '/')
			enter(g, g->next, i);
		break;
	case TOKEN_PATH:
		enter(g, g->next, i);
		break;
	case TOKEN_FOLDERS:
		if (c == '/')
			enter(g, g->next, i);
		else
			g->next[i] = true; /* nothing enters it any more in this step */
		break;
	case TOKEN_END:
		break;
	}
}

static bool match(const char *pattern, const char *path, bool folders)
{
	struct program g;

	if (!pattern_valid(pattern))
		return false;
	g.count = 0;
	compile(&g, pattern, folders);
	memset(g.now, 0, sizeof(g.now));
	enter(&g, g.now, 0);
	for (; *path; path++) {
		if (folders && *path == '/' && g.now[g.count])
			return true;
		memset(g.next, 0, g.count + 1);
		for (size_t i = 0; i < g.count; i++)
			if (g.now[i])
				step(&g, i, *path);
		memcpy(g.now, g.next, g.count + 1);
	}
	return g.now[g.count];
}

bool pattern_match(const char *pattern, const char *path)
{
	return match(pattern, path, false);
}

bool pattern_match_folders(const char *pattern, const char *path)
{
	return match(pattern, path, true);
}
