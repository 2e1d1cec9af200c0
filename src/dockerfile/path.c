#include "dockerfile/path.h"

#include <string.h>

/* Appends the components of a path to a clean one. */
static bool append(char *out, size_t *n, const char *path)
{
	while (*path) {
		size_t part = strcspn(path, "/");

		if (part == 2 && memcmp(path, "..", 2) == 0) {
			while (*n && out[--*n] != '/')
				;
		} else if (part && !(part == 1 && *path == '.')) {
			if (*n + part + 2 > BUILD_PATH_MAX)
				return false;
			out[(*n)++] = '/';
			memcpy(out + *n, path, part);
			*n += part;
		}
		path += part + (path[part] == '/');
	}
	out[*n] = '\0';
	return true;
}

bool path_resolve(const char *base, const char *path, char out[BUILD_PATH_MAX])
{
	size_t n = 0;

	out[0] = '\0';
	if (*path != '/' && !append(out, &n, base))
		return false;
	if (!append(out, &n, path))
		return false;
	if (n == 0)
		memcpy(out, "/", 2);
	return true;
}
