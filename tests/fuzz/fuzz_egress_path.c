/* Paths of requests and patterns of rules: what has a form keeps it, a pattern without wildcards
 * matches itself only, and no pattern takes more than its length in steps for a letter. */
#include "fuzz.h"

#include <ctype.h>
#include <string.h>

#include "rules/path.h"

static bool is_text(const uint8_t *data, size_t n)
{
	return !memchr(data, 0, n);
}

static uint32_t taken(const struct path_steps *s)
{
	check(!s->over);
	return UINT32_MAX - s->left;
}

/* Both ways of matching take few steps, and case makes no difference to the wide one. */
static void match(const char *pattern, const char *path)
{
	struct path_steps exact = {.left = UINT32_MAX}, wide = exact, other = exact;
	uint32_t most = (uint32_t)((strlen(pattern) + 1) * strlen(path));
	char upper[257] = "";
	struct path_wide w;
	bool fits = path_matches(pattern, path, &exact), widely;

	if (!strchr(pattern, '*'))
		check(fits == (strcmp(pattern, path) == 0));
	check(path_matches("**", path, &other) && taken(&exact) <= 3 * most + 64);
	path_widen(path, &w);
	check(w.count >= 1 && w.count <= 2);
	for (unsigned i = 0; i < w.count; i++)
		check(w.readings[i].end_count >= 1 && w.readings[i].end_count <= PATH_ENDS_MAX &&
			w.readings[i].count <= strlen(path));
	widely = path_matches_wide(pattern, &w, &wide);
	check(taken(&wide) <= 2 * most + PATH_ENDS_MAX * 8 * (most + 64));
	if (fits && path_is_pattern(pattern) && !strchr(pattern, '%') && path[0] == '/')
		check(widely);
	check(path_matches_wide("/**", &w, &other) == (path[0] == '/'));
	for (size_t i = 0; pattern[i]; i++)
		upper[i] = (char)toupper((unsigned char)pattern[i]);
	check(path_matches_wide(upper, &w, &other) == widely);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
	size_t n = end ? (size_t)(end - data) : 0, path_n = end ? size - n - 1 : 0;
	char pattern[257] = "", path[RULES_PATH_MAX + 1], again[RULES_PATH_MAX + 1];

	if (!end || n > 256 || !is_text(data, n))
		return 0;
	memcpy(pattern, data, n);
	if (path_clean((const char *)end + 1, path_n, path) < 0)
		return 0;
	check(strlen(path) <= path_n && (path[0] == '/' || strcmp(path, "*") == 0));
	check(!strstr(path, "//") && !strstr(path, "/../") && !strstr(path, "/./"));
	if (!strchr(path, '%') && !strchr(path, ' '))
		check(path_clean(path, strlen(path), again) == 0 && strcmp(path, again) == 0);
	match(pattern, path);
	return 0;
}
