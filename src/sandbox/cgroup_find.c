#include "sandbox/cgroup_find.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define UNIFY                                                                                      \
	"boot with systemd.unified_cgroup_hierarchy=1 (without systemd: "                          \
	"cgroup_no_v1=all), and mount cgroup2 on /sys/fs/cgroup"

enum { MOUNT_ROOT = 4, MOUNT_POINT = 5 }; /* fields of a line of mountinfo, from 1 */

static const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : line + strlen(line);
}

/* A controller of version 1 has a line of its own, "4:memory:/". A named hierarchy has none. */
static bool has_version_1(const char *own)
{
	for (const char *p = own; *p; p = next_line(p)) {
		const char *list = p + strspn(p, "0123456789");

		if (*list == ':' && list[1] != ':' && !str_starts_with(list + 1, "name="))
			return true;
	}
	return false;
}

/* Copies up to a space. The kernel writes spaces and backslashes of paths in octal. */
static char *copy_field(const char *field)
{
	size_t len = strcspn(field, " \n"), n = 0;
	char *out = malloc(len + 1);

	for (size_t i = 0; out && i < len; i++) {
		unsigned octal;

		if (field[i] == '\\' && sscanf(field + i + 1, "%3o", &octal) == 1) {
			out[n++] = (char)octal;
			i += 3;
		} else {
			out[n++] = field[i];
		}
	}
	if (out)
		out[n] = '\0';
	return out;
}

/* The nth field of a line, from 1. NULL if the line has fewer. */
static const char *field_of(const char *line, unsigned nth)
{
	const char *end = line + strcspn(line, "\n");

	for (; nth > 1; nth--) {
		line = memchr(line, ' ', (size_t)(end - line));
		if (!line)
			return NULL;
		line++;
	}
	return line;
}

static bool is_cgroup2(const char *line)
{
	const char *end = line + strcspn(line, "\n"), *p = strstr(line, " - cgroup2 ");

	return p && p < end;
}

/* The path below the mount's root, or NULL if it is not there. */
static const char *below(const char *path, const char *root)
{
	size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);

	if (strncmp(path, root, n) != 0 || (path[n] && path[n] != '/'))
		return NULL;
	return strcmp(path + n, "/") == 0 ? "" : path + n;
}

/* Our group's path in its hierarchy: the line "0::/path". malloc'ed; NULL: none. */
static char *own_path(const char *own)
{
	for (const char *p = own; *p; p = next_line(p))
		if (str_starts_with(p, "0::/"))
			return strndup(p + 3, strcspn(p + 3, "\n"));
	return NULL;
}

static char *directory_in(const char *line, const char *path)
{
	const char *root_field = field_of(line, MOUNT_ROOT);
	const char *point_field = field_of(line, MOUNT_POINT);
	_cleanup_free_ char *root = root_field ? copy_field(root_field) : NULL;
	_cleanup_free_ char *point = point_field ? copy_field(point_field) : NULL;
	const char *rest = root && point ? below(path, root) : NULL;

	return rest ? str_printf("%s%s", point, rest) : NULL;
}

int cgroup_find(const char *mountinfo, const char *own, char **ret_path, struct error *e)
{
	_cleanup_free_ char *path = own_path(own);
	bool mounted = false;

	if (has_version_1(own))
		return error_set(e, ERROR_HOST, ENOTSUP,
			"cgroup version 1 has this host's controllers: " UNIFY);
	/* outside of our cgroup namespace, a path begins with "/.." */
	for (const char *p = mountinfo; path && !str_starts_with(path, "/..") && *p;
		p = next_line(p)) {
		if (!is_cgroup2(p))
			continue;
		mounted = true;
		*ret_path = directory_in(p, path);
		if (*ret_path)
			return 0;
	}
	if (!path || !mounted)
		return error_set(e, ERROR_HOST, ENOENT, "no cgroup v2 is mounted: " UNIFY);
	return error_set(e, ERROR_HOST, ENOENT,
		"no mount shows this process's cgroup %s: mount cgroup2 on /sys/fs/cgroup", path);
}
