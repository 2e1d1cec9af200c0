#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Appends the components of path to out, which is "" or an absolute path of n bytes. */
static int append(const char *path, char *out, size_t *n)
{
	while (*path) {
		size_t part = strcspn(path, "/");

		if (part == 2 && path[0] == '.' && path[1] == '.') {
			while (*n && out[*n - 1] != '/')
				(*n)--;
			if (*n)
				(*n)--;
		} else if (part && !(part == 1 && path[0] == '.')) {
			if (*n + 1 + part > AGENT_PATH_MAX)
				return -ENAMETOOLONG;
			out[(*n)++] = '/';
			memcpy(out + *n, path, part);
			*n += part;
		}
		path += part;
		path += *path == '/';
	}
	return 0;
}

int path_resolve(const char *path, const char *home, char out[AGENT_PATH_MAX + 1])
{
	size_t n = 0;
	int r = 0;

	if (path[0] == '~') {
		if (path[1] && path[1] != '/')
			return -EINVAL;
		path++;
		r = append(home, out, &n);
		path += *path == '/';
	} else if (path[0] != '/') {
		r = append(home, out, &n);
	}
	if (r == 0)
		r = append(path, out, &n);
	if (n == 0)
		out[n++] = '/';
	out[n] = '\0';
	return r;
}

int path_make_parents(const char *path, unsigned uid, unsigned gid)
{
	char p[AGENT_PATH_MAX + 1];
	char *slash = strrchr(path, '/');
	struct stat st;

	strcpy(p, path); /* bounded, as it is resolved */
	p[slash - path] = '\0';
	if (!p[0] || stat(p, &st) == 0)
		return 0; /* usual case; if it is not a directory, the caller's call fails */
	for (char *s = p + 1;; s++) {
		char c = *s;

		if (c != '/' && c != '\0')
			continue;
		*s = '\0';
		if (mkdir(p, 0755) == 0)
			(void)!chown(p, uid, gid); /* works as root; otherwise it is ours already */
		else if (errno != EEXIST)
			return -errno;
		if (c == '\0')
			return 0;
		*s = c;
	}
}
