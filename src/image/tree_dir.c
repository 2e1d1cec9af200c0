#include "image/tree_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"

struct dir_time {
	char *path; /* owned */
	int64_t mtime;
};

struct tree_dir {
	struct tree_sink sink;
	int fd; /* borrowed */
	int64_t epoch;
	struct dir_time *times;
	size_t count, capacity;
	char buffer[65536];
};

static struct tree_dir *of_sink(struct tree_sink *s)
{
	return (struct tree_dir *)(void *)((char *)s - offsetof(struct tree_dir, sink));
}

/* Opens below the directory as if it were the root: links cannot lead out of it. */
static int open_inside(const struct tree_dir *d, const char *path, int flags)
{
	struct open_how how = {.flags = (unsigned)flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	int fd = (int)syscall(SYS_openat2, d->fd, *path ? path : ".", &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

static int remember_time(struct tree_dir *d, const char *path, int64_t mtime)
{
	struct dir_time *p;

	if (d->count == d->capacity) {
		size_t capacity = d->capacity ? 2 * d->capacity : 256;

		p = reallocarray(d->times, capacity, sizeof(*p));
		if (!p)
			return -ENOMEM;
		d->times = p;
		d->capacity = capacity;
	}
	p = &d->times[d->count];
	*p = (struct dir_time){strdup(path), mtime};
	if (!p->path)
		return -ENOMEM;
	d->count++;
	return 0;
}

static int open_parent(struct tree_dir *d, const char *path, const char **ret_name);

/* Opens a directory of the tree. Makes it and its parents when missing. */
static int open_dir(struct tree_dir *d, const char *path)
{
	int fd = open_inside(d, path, O_RDONLY | O_DIRECTORY);
	_cleanup_close_ int parent = -1;
	const char *name;

	if (fd != -ENOENT || !*path)
		return fd;
	parent = open_parent(d, path, &name);
	if (parent < 0)
		return parent;
	if (mkdirat(parent, name, 0755) < 0)
		return -errno;
	return open_inside(d, path, O_RDONLY | O_DIRECTORY);
}

static int open_parent(struct tree_dir *d, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	char dir[TREE_PATH_MAX];
	size_t n = slash ? (size_t)(slash - path) : 0;

	if (n >= sizeof(dir))
		return -ENAMETOOLONG;
	memcpy(dir, path, n);
	dir[n] = '\0';
	*ret_name = slash ? slash + 1 : path;
	return open_dir(d, dir);
}

static int write_file(struct tree_dir *d, int parent, const char *name, const struct tree_entry *t,
	const struct tree_data *data)
{
	_cleanup_close_ int fd =
		openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	uint64_t done = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while (t->size > 0 && (n = data->read(data->opaque, d->buffer, sizeof(d->buffer))) != 0) {
		int r = n < 0 ? (int)n : fd_write_full(fd, d->buffer, (size_t)n);

		if (r < 0)
			return r;
		done += (uint64_t)n;
		if (done > t->size)
			return -EINVAL;
	}
	return done == t->size ? 0 : -ENODATA;
}

static int make(struct tree_dir *d, int parent, const char *name, const struct tree_entry *t,
	const struct tree_data *data)
{
	switch (t->mode & S_IFMT) {
	case S_IFREG:
		return write_file(d, parent, name, t, data);
	case S_IFDIR:
		return mkdirat(parent, name, 0700) < 0 && errno != EEXIST ? -errno : 0;
	case S_IFLNK:
		return symlinkat(t->symlink, parent, name) < 0 ? -errno : 0;
	default:
		return mknodat(parent, name, t->mode, t->rdev) < 0 ? -errno : 0;
	}
}

static int set_meta(int parent, const char *name, const struct tree_entry *t)
{
	const struct timespec times[2] = {{.tv_sec = t->mtime}, {.tv_sec = t->mtime}};
	_cleanup_free_ char *path = NULL;

	if (fchownat(parent, name, t->uid, t->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISLNK(t->mode) && fchmodat(parent, name, t->mode & 07777, 0) < 0)
		return -errno;
	if (t->xattr_count > 0) {
		path = str_printf("/proc/self/fd/%d/%s", parent, name);
		if (!path)
			return -ENOMEM;
	}
	for (size_t i = 0; i < t->xattr_count; i++)
		if (lsetxattr(path, t->xattrs[i].name, t->xattrs[i].value, t->xattrs[i].size, 0) <
			0)
			return -errno;
	return utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int add_hardlink(struct tree_dir *d, int parent, const char *name, const char *target)
{
	const char *last;
	_cleanup_close_ int dir = open_parent(d, target, &last);

	if (dir < 0)
		return dir;
	return linkat(dir, last, parent, name, 0) < 0 ? -errno : 0;
}

static int add_at(struct tree_dir *d, int parent, const char *name, const struct tree_entry *t,
	const struct tree_data *data)
{
	int r;

	if (!S_ISDIR(t->mode) || t->hardlink) {
		if (unlinkat(parent, name, 0) < 0 && errno != ENOENT)
			return -errno;
	} else {
		struct stat st;

		if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) &&
			unlinkat(parent, name, 0) < 0)
			return -errno;
	}
	if (t->hardlink)
		return add_hardlink(d, parent, name, t->hardlink);
	r = make(d, parent, name, t, data);
	return r < 0 ? r : set_meta(parent, name, t);
}

static int set_root(struct tree_dir *d, const struct tree_entry *t)
{
	if (!S_ISDIR(t->mode))
		return -EISDIR;
	return fchown(d->fd, t->uid, t->gid) < 0 || fchmod(d->fd, t->mode & 07777) < 0 ? -errno : 0;
}

static int dir_add(struct tree_sink *s, const struct tree_entry *t, const struct tree_data *data,
	struct error *e)
{
	struct tree_dir *d = of_sink(s);
	_cleanup_close_ int parent = -1;
	const char *name;
	int r;

	if (*t->path == '\0') {
		r = set_root(d, t);
	} else {
		parent = open_parent(d, t->path, &name);
		r = parent < 0 ? parent : add_at(d, parent, name, t, data);
	}
	if (r == 0 && S_ISDIR(t->mode) && !t->hardlink)
		r = remember_time(d, t->path, t->mtime);
	if (r == -EBADMSG || r == -ENODATA)
		return error_set(e, ERROR_BAD_IMAGE, -r,
			"the source of /%.200s is damaged or cut off", t->path);
	if (r < 0)
		return error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_BAD_IMAGE, -r,
			"cannot put /%.200s into the image", t->path);
	return 0;
}

static int dir_lookup(struct tree_sink *s, const char *path, struct tree_stat *ret)
{
	_cleanup_close_ int fd = open_inside(of_sink(s), path, O_PATH);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 ? fd : -errno;
	*ret = (struct tree_stat){st.st_mode, st.st_uid, st.st_gid};
	return 0;
}

static int dir_read(struct tree_sink *s, const char *path, char **ret, size_t *ret_len)
{
	_cleanup_close_ int fd = open_inside(of_sink(s), path, O_RDONLY | O_NONBLOCK);
	char name[64];
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EFBIG;
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return file_read(AT_FDCWD, name, TREE_SMALL_FILE_MAX, ret, ret_len);
}

static const struct tree_sink_ops dir_ops = {dir_add, dir_lookup, dir_read};

int tree_dir_new(int dirfd, int64_t epoch, struct tree_dir **ret, struct error *e)
{
	struct tree_dir *d = calloc(1, sizeof(*d));

	if (!d)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	d->sink.ops = &dir_ops;
	d->fd = dirfd;
	d->epoch = epoch;
	*ret = d;
	return 0;
}

struct tree_sink *tree_dir_sink(struct tree_dir *d)
{
	return &d->sink;
}

int tree_dir_finish(struct tree_dir *d, struct error *e)
{
	for (size_t i = d->count; i-- > 0;) {
		const struct timespec times[2] = {
			{.tv_sec = d->times[i].mtime}, {.tv_sec = d->times[i].mtime}};
		_cleanup_close_ int fd =
			open_inside(d, d->times[i].path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);

		if (fd == -ELOOP || fd == -ENOTDIR || fd == -ENOENT)
			continue; /* something else has replaced it */
		if (fd < 0 || futimens(fd, times) < 0)
			return error_set_errno(e, ERROR_INTERNAL, errno,
				"cannot set the times of /%s", d->times[i].path);
	}
	return 0;
}

void tree_dir_free(struct tree_dir *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->count; i++)
		free(d->times[i].path);
	free(d->times);
	free(d);
}
