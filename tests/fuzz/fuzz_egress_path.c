/* Paths of requests and patterns of rules: what has a form keeps it, and a pattern without
 * wildcards matches itself only. */
#include "fuzz.h"

#include <string.h>

#include "rules/path.h"

static bool is_text(const uint8_t *data, size_t n)
{
	return !memchr(data, 0, n);
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
	if (!strchr(pattern, '*'))
		check(path_matches(pattern, path) == (strcmp(pattern, path) == 0));
	else
		(void)path_matches(pattern, path);
	check(path_matches("**", path));
	return 0;
}
