#include "dockerfile/ignore.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "dockerfile/path.h"
#include "dockerfile/pattern.h"

enum { PATH_BYTES = 4096 };

static int add_pattern(struct ignore *g, const char *p, size_t n, unsigned line, struct error *e)
{
	bool again = *p == '!';
	char path[BUILD_PATH_MAX], *text;

	p += again;
	n -= again;
	while (again && n && isspace((unsigned char)*p)) {
		p++;
		n--;
	}
	if (n == 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			".dockerignore: line %u: nothing follows the !", line);
	if (g->count == IGNORE_PATTERNS_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, ".dockerignore: more than %d patterns",
			IGNORE_PATTERNS_MAX);
	text = arena_copy(&g->arena, p, n);
	g->items = arena_grow(&g->arena, g->items, g->count, sizeof(*g->items));
	if (!text || !g->items)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (path_resolve("/", text, path))
		(void)strcpy(text, path + 1); /* not longer; else pattern_valid refuses it */
	if (!pattern_valid(text))
		return error_set(e, ERROR_USAGE, EINVAL,
			".dockerignore: line %u: %.80s is no pattern: at most %d characters, with "
			"closed brackets",
			line, text, PATTERN_MAX);
	if (!*text) /* "/" and "." mean nothing */
		return 0;
	g->items[g->count++] = (struct ignore_pattern){text, again};
	g->any_again |= again;
	return 0;
}

int ignore_parse(const char *text, size_t n, struct ignore *ret, struct error *e)
{
	const char *end = text + n;
	unsigned line = 0;
	int r = 0;

	*ret = (struct ignore){.count = 0};
	arena_init(&ret->arena, 4 * IGNORE_BYTES_MAX);
	if (n > IGNORE_BYTES_MAX || memchr(text, '\0', n))
		return error_set(
			e, ERROR_LIMIT, EFBIG, ".dockerignore: must be text of at most 1 MiB");
	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	while (text < end && r == 0) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline ? newline : end, *begin = text;

		line++;
		text = newline ? newline + 1 : end;
		if (*begin == '#')
			continue;
		while (begin < stop && isspace((unsigned char)*begin))
			begin++;
		while (stop > begin && isspace((unsigned char)stop[-1]))
			stop--;
		if (begin < stop)
			r = add_pattern(ret, begin, (size_t)(stop - begin), line, e);
	}
	return r;
}

void ignore_done(struct ignore *g)
{
	arena_done(&g->arena);
	*g = (struct ignore){.count = 0};
}

bool ignore_excludes(const struct ignore *g, const char *path)
{
	bool out = false;

	if (strlen(path) >= PATH_BYTES)
		return false;
	for (size_t i = 0; i < g->count; i++)
		if (g->items[i].again == out && pattern_match_folders(g->items[i].text, path))
			out = !out;
	return out;
}
