#include "image/home.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

static const char *const area_names[HOME_AREAS_] = {
	[HOME_KERNELS] = "kernels",
	[HOME_IMAGES] = "images",
	[HOME_TEMPLATES] = "templates",
	[HOME_SNAPSHOTS] = "snapshots",
	[HOME_PAUSED] = "paused",
	[HOME_ASIDE] = "aside",
	[HOME_STEPS] = "steps",
};

const char *home_area_name(enum home_area area)
{
	return area_names[area];
}

static const char *nonempty_env(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

char *home_default_path(void)
{
	const char *dir = nonempty_env("MAYFLY_HOME");

	if (dir)
		return strdup(dir);
	if (geteuid() == 0)
		return strdup("/var/lib/mayfly");
	dir = nonempty_env("XDG_DATA_HOME");
	if (dir)
		return str_printf("%s/mayfly", dir);
	dir = nonempty_env("HOME");
	return dir ? str_printf("%s/.local/share/mayfly", dir) : NULL;
}

static char *absolute(const char *path)
{
	char cwd[PATH_MAX];

	if (*path == '/')
		return strdup(path);
	return getcwd(cwd, sizeof(cwd)) ? str_printf("%s/%s", cwd, path) : NULL;
}

static int open_dir(int dirfd, const char *path)
{
	int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_all(struct home *h)
{
	int r = file_mkdir_p(h->path, 0700);

	if (r < 0)
		return r;
	h->fd = open_dir(AT_FDCWD, h->path);
	if (h->fd < 0)
		return h->fd;
	for (int i = 0; i < HOME_AREAS_; i++) {
		if (mkdirat(h->fd, area_names[i], 0700) < 0 && errno != EEXIST)
			return -errno;
		h->area_fd[i] = open_dir(h->fd, area_names[i]);
		if (h->area_fd[i] < 0)
			return h->area_fd[i];
	}
	return 0;
}

int home_open(const char *path, struct home *ret, struct error *e)
{
	_cleanup_free_ char *chosen = path ? strdup(path) : home_default_path();
	struct home h = HOME_INIT;
	int r;

	if (!chosen)
		return error_set(e, ERROR_USAGE, EINVAL,
			"no place for Mayfly's state: set MAYFLY_HOME to a directory");
	h.path = absolute(chosen);
	r = h.path ? open_all(&h) : -ENOMEM;
	if (r < 0) {
		home_close(&h);
		return error_set(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			"cannot use the state directory %s (%s): set MAYFLY_HOME to a directory "
			"you can write",
			chosen, strerror(-r));
	}
	*ret = h;
	return 0;
}

void home_close(struct home *h)
{
	for (int i = 0; i < HOME_AREAS_; i++) {
		if (h->area_fd[i] >= 0)
			(void)close(h->area_fd[i]); /* a directory */
		h->area_fd[i] = -1;
	}
	if (h->fd >= 0)
		(void)close(h->fd); /* a directory */
	h->fd = -1;
	free(h->path);
	h->path = NULL;
}

char *home_path(const struct home *h, enum home_area area, const char *name, const char *file)
{
	return str_printf(
		"%s/%s/%s%s%s", h->path, area_names[area], name, file ? "/" : "", file ? file : "");
}
