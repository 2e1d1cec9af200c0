#include "image/workdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "io/reclaim.h"

#define TMP_PREFIX ".tmp-"

enum { LOCK_TRIES = 50, LOCK_PAUSE_NS = 10000000 };

/* Not ".", and no temporary name. */
/* A name may stand behind that of its owner, a key's id (workdir_remove_owned). */
static bool is_finished_name(const char *name)
{
	char owner[STR_UUID_BYTES];
	const char *dot = strchr(name, '.');

	if (str_is_tagged_name(name))
		return true;
	if (!dot || dot - name >= (ptrdiff_t)sizeof(owner))
		return false;
	(void)snprintf(owner, sizeof(owner), "%.*s", (int)(dot - name), name); /* fits */
	return str_is_name(owner) && str_is_name(dot + 1);
}

/* Opens and locks name. -EWOULDBLOCK when somebody holds it; -ENOENT when it was removed or
 * replaced meanwhile. */
static int lock_dir(int area_fd, const char *name)
{
	_cleanup_close_ int fd =
		openat(area_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat mine, there;

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	if (fstat(fd, &mine) < 0 || fstatat(area_fd, name, &there, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (mine.st_ino != there.st_ino || mine.st_dev != there.st_dev)
		return -ENOENT;
	return TAKE_FD(fd);
}

void workdir_sweep(int area_fd)
{
	DIR *d = file_open_dir(area_fd, ".");
	struct dirent *de;

	if (!d)
		return;
	while ((de = readdir(d))) {
		_cleanup_close_ int lock = -1;

		if (!str_starts_with(de->d_name, TMP_PREFIX))
			continue;
		lock = lock_dir(area_fd, de->d_name);
		if (lock >= 0)
			(void)reclaim_remove_tree(area_fd, de->d_name); /* the next sweep retries */
	}
	(void)closedir(d); /* read-only */
}

/* Retries for a while: a sweep or a commit of another process may hold the lock for a moment. */
static int wait_for_lock(int area_fd, const char *name)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
	int fd = -EWOULDBLOCK;

	for (int i = 0; i < LOCK_TRIES && fd == -EWOULDBLOCK; i++) {
		if (i > 0)
			(void)nanosleep(&pause, NULL);
		fd = lock_dir(area_fd, name);
	}
	return fd;
}

static int make_and_lock(int area_fd, const char *tmp)
{
	int fd = -ENOENT;

	for (int i = 0; i < LOCK_TRIES && fd == -ENOENT; i++) {
		if (mkdirat(area_fd, tmp, 0700) < 0 && errno != EEXIST)
			return -errno;
		fd = wait_for_lock(area_fd, tmp);
	}
	return fd;
}

static int clear_children(int fd)
{
	DIR *d = file_open_dir(fd, ".");
	struct dirent *de;
	int r = 0;

	if (!d)
		return -errno;
	while (r == 0 && (de = readdir(d)))
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
			r = reclaim_remove_tree(fd, de->d_name);
	(void)closedir(d); /* read-only */
	return r;
}

int workdir_check_name(const char *name, struct error *e)
{
	if (str_is_tagged_name(name))
		return 0;
	return error_set(e, ERROR_USAGE, EINVAL,
		"'%.80s' cannot be a template's name: 1 to 64 of a-z 0-9 . _ -, a letter or digit "
		"first; a tag may follow, as in NAME:TAG",
		name);
}

int workdir_begin(
	int area_fd, const char *name, const char *what, struct workdir *ret, struct error *e)
{
	_cleanup_(workdir_abort) struct workdir w = WORKDIR_INIT;
	int r = workdir_check_name(name, e);

	if (r < 0)
		return r;
	workdir_sweep(area_fd);
	w.area_fd = area_fd;
	w.name = strdup(name);
	w.tmp = str_printf(TMP_PREFIX "%s", name);
	if (!w.name || !w.tmp)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = make_and_lock(area_fd, w.tmp);
	if (r == -EWOULDBLOCK || r == -ENOENT)
		return error_set(e, ERROR_EXISTS, EBUSY,
			"%s '%s' is being built by another process: wait for it, or end it", what,
			name);
	if (r < 0)
		return error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			"cannot make a directory for %s '%s'", what, name);
	w.fd = r;
	r = clear_children(w.fd);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r,
			"cannot remove what an earlier build of %s '%s' left behind", what, name);
	*ret = w;
	w = (struct workdir)WORKDIR_INIT;
	return 0;
}

static int name_of_removed(char **ret)
{
	char id[9];
	int r = str_random_id(id, sizeof(id));

	if (r < 0)
		return r;
	*ret = str_printf(TMP_PREFIX "old.%s", id);
	return *ret ? 0 : -ENOMEM;
}

/* Moves the old directory to a temporary name, where the caller removes it. Locks it first, so that
 * no other build can take over that name meanwhile. One that somebody holds is not locked. It gets
 * a name of its own, so that it is in no later build's way. */
static int put_in_place(struct workdir *w, char **ret_old, int *ret_lock)
{
	int r;

	if (renameat2(w->area_fd, w->tmp, w->area_fd, w->name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EEXIST && errno != EINVAL && errno != ENOSYS)
		return -errno;
	*ret_lock = wait_for_lock(w->area_fd, w->name);
	if (renameat2(w->area_fd, w->tmp, w->area_fd, w->name, RENAME_EXCHANGE) == 0) {
		if (*ret_lock >= 0)
			*ret_old = strdup(w->tmp);
		else if (name_of_removed(ret_old) == 0)
			(void)renameat(w->area_fd, w->tmp, w->area_fd,
				*ret_old); /* else the next build of this name waits for it */
		return 0;
	}
	/* A file system without RENAME_EXCHANGE: the name is missing for a moment. */
	r = name_of_removed(ret_old);
	if (r < 0)
		return r;
	if (renameat(w->area_fd, w->name, w->area_fd, *ret_old) < 0 && errno != ENOENT)
		return -errno;
	return renameat(w->area_fd, w->tmp, w->area_fd, w->name) < 0 ? -errno : 0;
}

static int sync_dir(int area_fd)
{
	_cleanup_close_ int fd = openat(area_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static void release(struct workdir *w)
{
	if (w->fd >= 0)
		(void)close(w->fd); /* releases the lock */
	free(w->name);
	free(w->tmp);
	*w = (struct workdir)WORKDIR_INIT;
}

int workdir_commit(struct workdir *w, struct error *e)
{
	_cleanup_free_ char *old = NULL;
	_cleanup_close_ int old_lock = -1;
	int r = fsync(w->fd) < 0 ? -errno : put_in_place(w, &old, &old_lock);

	if (r == 0)
		r = sync_dir(w->area_fd);
	if (r < 0)
		return error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			"cannot put '%s' in place", w->name);
	if (old && old_lock >= 0)
		(void)reclaim_remove_tree(w->area_fd, old); /* if this fails, the next sweep removes
							  * it */
	release(w);
	return 0;
}

void workdir_abort(struct workdir *w)
{
	if (w->fd >= 0)
		(void)reclaim_remove_tree(
			w->area_fd, w->tmp); /* if this fails, the next sweep removes
							     * it */
	release(w);
}

int workdir_remove(int area_fd, const char *name)
{
	_cleanup_close_ int lock = -1;
	_cleanup_free_ char *old = NULL;
	int r = is_finished_name(name) ? name_of_removed(&old) : -ENOENT;

	if (r < 0)
		return r;
	if (renameat(area_fd, name, area_fd, old) < 0)
		return -errno;
	lock = wait_for_lock(area_fd, old);
	return lock == -EWOULDBLOCK ? 0 : reclaim_remove_tree(area_fd, old);
}

int workdir_hold(int fd, const char *what, struct error *e)
{
	struct stat st;
	int r;

	do /* a remover may hold the lock: wait for it */
		r = flock(fd, LOCK_SH) < 0 || fstat(fd, &st) < 0 ? -errno : 0;
	while (r == -EINTR);
	if (r == 0 && !st.st_nlink)
		r = -ENOENT;
	return r < 0 ? error_set(e, ERROR_NOT_FOUND, -r, "the %s is not there any more", what) : 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_add(char ***list, size_t *n, const char *name)
{
	char **p = realloc(*list, (*n + 2) * sizeof(*p));

	if (!p)
		return -ENOMEM;
	*list = p;
	p[*n] = strdup(name);
	p[*n + 1] = NULL;
	return p[(*n)++] ? 0 : -ENOMEM;
}

int workdir_list(int area_fd, char ***ret)
{
	DIR *d = file_open_dir(area_fd, ".");
	char **list = NULL;
	struct dirent *de;
	size_t n = 0;
	int r = 0;

	if (!d)
		return -errno;
	list = calloc(1, sizeof(*list));
	if (!list)
		r = -ENOMEM;
	while (r == 0 && (de = readdir(d)))
		if (is_finished_name(de->d_name))
			r = list_add(&list, &n, de->d_name);
	(void)closedir(d); /* read-only */
	if (r < 0) {
		workdir_list_free(list);
		return r;
	}
	qsort(list, n, sizeof(*list), compare_names);
	*ret = list;
	return 0;
}

void workdir_list_free(char **names)
{
	for (char **p = names; p && *p; p++)
		free(*p);
	free(names);
}

void workdir_remove_owned(int area_fd, const char *owner)
{
	size_t n = strlen(owner);
	char **names = NULL;

	if (workdir_list(area_fd, &names) < 0)
		return; /* they stay until they are the least recently used */
	for (char **x = names; *x; x++)
		if (strncmp(*x, owner, n) == 0 && (*x)[n] == '.')
			(void)workdir_remove(area_fd, *x); /* likewise */
	workdir_list_free(names);
}
