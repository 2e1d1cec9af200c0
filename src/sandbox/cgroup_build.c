#include "sandbox/cgroup_build.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "sandbox/cgroup.h"

enum { SWEEP_MS = 1000 };

#define WEIGHT "20" /* of all builds together; that of all sandboxes is 100 */

/* The directory of builds. make: if it is missing. Returns a descriptor or -errno. */
static int open_builds(const struct cgroup_tree *t, bool make)
{
	bool root = str_ends_with(t->path, "/mayfly");
	size_t above = strlen(t->path) - (root ? 0 : strlen("sandboxes"));
	_cleanup_free_ char *path =
		str_printf("%.*s%s", (int)above, t->path, root ? "-builds" : "builds");
	_cleanup_close_ int fd = -1;
	int r = 0;

	if (!path)
		return -ENOMEM;
	if (make && mkdir(path, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (make)
		r = file_write_text(fd, "cpu.weight", WEIGHT);
	return r < 0 ? r : TAKE_FD(fd);
}

static int enter(int builds_fd, const char *id, pid_t pid)
{
	_cleanup_close_ int fd =
		openat(builds_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char text[16];

	(void)snprintf(text, sizeof(text), "%d", (int)pid); /* fits */
	return fd < 0 ? -errno : file_write_text(fd, "cgroup.procs", text);
}

int cgroup_build_enter(const struct cgroup_tree *t, const char *id, pid_t pid)
{
	_cleanup_close_ int builds_fd = t ? open_builds(t, true) : -1;
	int r;

	if (builds_fd < 0)
		return t ? builds_fd : 0;
	if (mkdirat(builds_fd, id, 0755) < 0)
		return -errno;
	r = enter(builds_fd, id, pid);
	if (r < 0)
		(void)unlinkat(builds_fd, id, AT_REMOVEDIR); /* empty; else the sweep's */
	return r;
}

int cgroup_build_remove(const struct cgroup_tree *t, const char *id)
{
	_cleanup_close_ int builds_fd = t ? open_builds(t, false) : -ENOENT;

	return builds_fd < 0 ? builds_fd : cgroup_remove_at(builds_fd, id, 0);
}

void cgroup_build_sweep(const struct cgroup_tree *t)
{
	_cleanup_close_ int builds_fd = t ? open_builds(t, false) : -1;
	DIR *d = builds_fd < 0 ? NULL : file_open_dir(builds_fd, ".");
	struct stat st;

	for (const struct dirent *x; d && (x = readdir(d));)
		if (!file_is_dots(x->d_name) &&
			fstatat(builds_fd, x->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISDIR(st.st_mode)) /* others are the kernel's files */
			(void)cgroup_remove_at(
				builds_fd, x->d_name, SWEEP_MS); /* else the next start */
	if (d)
		(void)closedir(d); /* read-only */
}
