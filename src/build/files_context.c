/* The build's directory as a source of files. */
#include <dirent.h>
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
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "build/files.h"

enum { VALUE_MAX = 4095, CAPABILITY_MAX = 64 }; /* bytes of attributes */

static struct files_context *of(struct files *f)
{
	return (struct files_context *)(void *)((char *)f - offsetof(struct files_context, files));
}

static int open_below(int top, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	long fd = syscall(SYS_openat2, top, *path ? path : ".", &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/* Links lead nowhere out of the directory, or of its part. */
static int open_inside(const struct files_context *c, const char *path, int flags)
{
	const char *slash = c->parts ? strchr(path, '/') : NULL;
	_cleanup_free_ char *part = slash ? strndup(path, (size_t)(slash - path)) : NULL;
	_cleanup_close_ int top = -1;

	if (!slash)
		return open_below(c->fd, path, flags);
	if (!part)
		return -ENOMEM;
	top = openat(c->fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return top < 0 ? -errno : open_below(top, slash + 1, flags);
}

/* What a link leads to is not there, or nothing is. */
static int missing(const struct files_context *c, const char *path, int err, struct error *e)
{
	_cleanup_close_ int fd = open_inside(c, path, O_PATH | O_NOFOLLOW);
	char target[BUILD_PATH_MAX];
	ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof(target) - 1);

	if (n <= 0)
		return error_set_errno(e, ERROR_NOT_FOUND, err, "%.200s in the build's directory",
			*path ? path : "/");
	target[n] = '\0';
	return error_set(e, ERROR_NOT_FOUND, ENOENT,
		"%.200s is a link to %.200s, which is not in the build's directory", path, target);
}

bool files_are_one(const struct files_entry *a, const struct files_entry *b)
{
	return a->inode && a->inode == b->inode && a->ctime_ns == b->ctime_ns && S_ISREG(a->mode) &&
	       a->mode == b->mode && a->uid == b->uid && a->gid == b->gid && a->size == b->size &&
	       a->mtime_ns == b->mtime_ns;
}

static int64_t to_ns(struct timespec t)
{
	return (int64_t)t.tv_sec * (int64_t)NS_PER_S + t.tv_nsec;
}

static void fill(const struct stat *st, const char *path, struct files_entry *ret)
{
	*ret = (struct files_entry){.path = path,
		.mode = st->st_mode,
		.mtime_ns = to_ns(st->st_mtim),
		.inode = st->st_nlink > 1 ? st->st_ino : 0,
		.ctime_ns = to_ns(st->st_ctim),
		.size = (uint64_t)st->st_size,
		.target = ""}; /* owners of this host mean nothing: root */
}

static int context_stat(struct files *f, const char *path, struct files_entry *ret, struct error *e)
{
	const struct files_context *c = of(f);
	_cleanup_close_ int fd = open_inside(c, path, O_PATH);
	struct stat st;

	if (*path && ignore_excludes(c->ignore, path))
		return error_set(
			e, ERROR_NOT_FOUND, ENOENT, "%.200s is left out by .dockerignore", path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return missing(c, path, fd < 0 ? -fd : errno, e);
	fill(&st, path, ret);
	return 0;
}

/* --- listing --- */

struct listing {
	const struct files_context *c;
	files_fn each;
	void *opaque;
	size_t count;
	struct error *e;
};

static int walk(struct listing *l, int dirfd, const char *path, unsigned depth);

/* Lists an entry and what is in it. An excluded folder is read only if a pattern may include
 * something in it again. */
static int visit(struct listing *l, int dirfd, const char *name, const char *path, unsigned depth)
{
	bool excluded = ignore_excludes(l->c->ignore, path);
	char target[BUILD_PATH_MAX] = "";
	struct files_entry entry;
	struct stat st;
	int r = 0;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set_errno(l->e, ERROR_HOST, errno, "%.200s", path);
	if (excluded && !(S_ISDIR(st.st_mode) && l->c->ignore->any_again))
		return 0;
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = '\0';
	}
	fill(&st, path, &entry);
	entry.target = target;
	if (!excluded) {
		if (++l->count > FILES_MAX)
			return error_set(l->e, ERROR_LIMIT, E2BIG,
				"the build's directory has more than %d files: exclude some in "
				".dockerignore",
				FILES_MAX);
		r = l->each(l->opaque, &entry, l->e);
	}
	if (r == 0 && S_ISDIR(st.st_mode)) {
		_cleanup_close_ int fd =
			openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		r = fd < 0 ? error_set_errno(l->e, ERROR_HOST, errno, "%.200s", path)
			   : walk(l, fd, path, depth + 1);
	}
	return r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

/* The names in a directory, sorted; malloc'ed. */
static int read_names(int dirfd, char ***ret, size_t *ret_count)
{
	DIR *d = file_open_dir(dirfd, ".");
	char **names = NULL;
	size_t n = 0;
	int r = d ? 0 : -errno;

	for (const struct dirent *x; r == 0 && (x = readdir(d));) {
		char **more;

		if (file_is_dots(x->d_name))
			continue;
		more = n & (n - 1) ? names : reallocarray(names, n ? 2 * n : 1, sizeof(*names));
		names = more ? more : names;
		if (!more || n == FILES_MAX || !(names[n] = strdup(x->d_name)))
			r = -ENOMEM;
		else
			n++;
	}
	if (d)
		(void)closedir(d); /* read only */
	if (r < 0) {
		free_names(names, n);
		return r;
	}
	qsort(names, n, sizeof(*names), by_name);
	*ret = names;
	*ret_count = n;
	return 0;
}

enum { DEPTH_MAX = 200 };

static int walk(struct listing *l, int dirfd, const char *path, unsigned depth)
{
	char below[BUILD_PATH_MAX], **names = NULL;
	size_t count = 0;
	int r = depth > DEPTH_MAX ? -ELOOP : read_names(dirfd, &names, &count);

	if (r < 0)
		return error_set_errno(l->e, ERROR_HOST, -r, "directory %.200s", path);
	for (size_t i = 0; i < count && r == 0; i++) {
		int n = snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "", names[i]);

		r = n >= (int)sizeof(below) ? error_set(l->e, ERROR_LIMIT, ENAMETOOLONG,
						      "%.200s...: a path is too long", path)
					    : visit(l, dirfd, names[i], below, depth);
	}
	free_names(names, count);
	return r;
}

static int context_list(
	struct files *f, const char *path, files_fn each, void *opaque, struct error *e)
{
	struct listing l = {.c = of(f), .each = each, .opaque = opaque, .e = e};
	_cleanup_close_ int fd = open_inside(of(f), path, O_RDONLY | O_DIRECTORY);

	if (fd < 0)
		return error_set_errno(e, ERROR_NOT_FOUND, -fd, "directory %.200s", path);
	return walk(&l, fd, path, 0);
}

static int context_read(struct files *f, const char *path, uint64_t offset, void *out, size_t n,
	size_t *ret, struct error *e)
{
	struct files_context *c = of(f);
	ssize_t got;

	if (c->open_fd < 0 || strcmp(c->open_path, path) != 0) {
		cleanup_close_p(&c->open_fd);
		c->open_fd = open_inside(c, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
		if (c->open_fd < 0)
			return error_set_errno(e, ERROR_HOST, -c->open_fd, "%.200s", path);
		(void)snprintf(c->open_path, sizeof(c->open_path), "%s", path); /* fits */
	}
	got = pread(c->open_fd, out, n, (off_t)offset);
	if (got < 0)
		return error_set_errno(e, ERROR_HOST, errno, "%.200s", path);
	*ret = (size_t)got;
	return 0;
}

static int context_open(struct files *f, const char *path, struct error *e)
{
	_cleanup_close_ int fd = open_inside(of(f), path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set_errno(e, ERROR_HOST, fd < 0 ? -fd : errno, "%.200s", path);
	return S_ISREG(st.st_mode)
		       ? TAKE_FD(fd)
		       : error_set(e, ERROR_HOST, EINVAL, "%.200s is not a file any more", path);
}

/* --- extended attributes --- */

static char *copy_text(struct files_xattrs *x, const char *text)
{
	size_t n = strlen(text) + 1;
	char *copy = memcpy(x->text + x->bytes, text, n);

	x->bytes += n;
	return copy;
}

void files_xattrs_add(struct files_xattrs *x, const char *name, const char *value)
{
	enum { MORE = 4 }; /* a string takes that much more in a message */
	size_t packed = x->bytes + MORE * (x->count + 2) + strlen(name) + strlen(value) + 2;

	if (x->count + 2 > 2 * FILES_XATTRS_MAX || packed > sizeof(x->text))
		return;
	x->items[x->count++] = copy_text(x, name);
	x->items[x->count++] = copy_text(x, value);
}

void files_xattrs_take(struct files_xattrs *x, const char *name, const void *value, size_t n)
{
	char text[VALUE_MAX + 1], hex[2 * CAPABILITY_MAX + 1];

	if (strcmp(name, "security.capability") == 0 && n <= CAPABILITY_MAX) {
		str_hex(value, n, hex);
		files_xattrs_add(x, name, hex);
	} else if (str_starts_with(name, "user.") && n <= VALUE_MAX && !memchr(value, '\0', n)) {
		memcpy(text, value, n);
		text[n] = '\0';
		files_xattrs_add(x, name, text);
	}
}

static void add_one(int fd, const char *name, struct files_xattrs *x)
{
	char value[VALUE_MAX];
	ssize_t n = fgetxattr(fd, name, value, sizeof(value));

	if (n >= 0) /* else it is too long, or went meanwhile */
		files_xattrs_take(x, name, value, (size_t)n);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In the order of their names, since they count for the cache. */
static int context_xattrs(
	struct files *f, const char *path, struct files_xattrs *ret, struct error *e)
{
	_cleanup_close_ int fd = open_inside(of(f), path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	char names[AGENT_XATTR_BYTES_MAX];
	const char *sorted[FILES_XATTRS_MAX];
	size_t count = 0;
	ssize_t n;

	ret->count = 0;
	ret->bytes = 0;
	if (fd < 0)
		return error_set_errno(e, ERROR_HOST, -fd, "%.200s", path);
	n = flistxattr(fd, names, sizeof(names)); /* -1: the file system has none */
	for (const char *p = names; p < names + n && count < FILES_XATTRS_MAX; p += strlen(p) + 1)
		sorted[count++] = p;
	qsort(sorted, count, sizeof(*sorted), by_text);
	for (size_t i = 0; i < count; i++)
		add_one(fd, sorted[i], ret);
	return 0;
}

void files_context_init(struct files_context *c, int fd, bool parts, const struct ignore *ignore)
{
	*c = (struct files_context){
		.files = {context_stat, context_list, context_read, context_xattrs, context_open},
		.fd = fd,
		.parts = parts,
		.ignore = ignore,
		.open_fd = -1};
}

void files_context_done(struct files_context *c)
{
	cleanup_close_p(&c->open_fd);
	c->open_fd = -1;
}
