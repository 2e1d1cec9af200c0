#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

enum { FIRST_BYTES = 4096 };

/* How much to ask for at first. A file with a size is then read at once, with its end. */
static size_t first_capacity(int fd, size_t max)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_size <= 0 || (uint64_t)st.st_size > max)
		return FIRST_BYTES;
	return (size_t)st.st_size + 2; /* one that is not there, and the NUL */
}

/* Reads from offset `at`, or, when at < 0, from the file's own offset: pipes and the like have no
 * other. */
static int read_whole(int fd, off_t at, size_t max, char **ret_data, size_t *ret_len)
{
	_cleanup_free_ char *data = NULL;
	size_t len = 0, capacity = at < 0 ? FIRST_BYTES : first_capacity(fd, max);

	for (;;) {
		char *p;
		ssize_t r;

		if (!data || len + 1 >= capacity) {
			if (data)
				capacity *= 2;
			p = realloc(data, capacity);
			if (!p)
				return -ENOMEM;
			data = p;
		}
		r = at < 0 ? read(fd, data + len, capacity - len - 1)
			   : pread(fd, data + len, capacity - len - 1, at + (off_t)len);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		len += (size_t)r;
		if (len > max)
			return -EFBIG;
	}
	data[len] = '\0';
	*ret_data = TAKE_PTR(data);
	if (ret_len)
		*ret_len = len;
	return 0;
}

int file_read(int dirfd, const char *path, size_t max, char **ret_data, size_t *ret_len)
{
	_cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : read_whole(fd, -1, max, ret_data, ret_len);
}

int file_open_foreign(int dirfd, const char *name, int flags, uint64_t max)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	return (uint64_t)st.st_size > max ? -EFBIG : TAKE_FD(fd);
}

int file_read_foreign(int dirfd, const char *name, size_t max, char **ret_data, size_t *ret_len)
{
	_cleanup_close_ int fd = file_open_foreign(dirfd, name, O_RDONLY, max);

	return fd < 0 ? fd : read_whole(fd, 0, max, ret_data, ret_len);
}

int file_read_fd(int fd, size_t max, char **ret_data, size_t *ret_len)
{
	return read_whole(fd, 0, max, ret_data, ret_len);
}

static int write_and_rename(
	int dirfd, const char *tmp, const char *name, const void *data, size_t len, mode_t mode)
{
	_cleanup_close_ int fd = -1;
	int r;

	fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	r = fd_write_full(fd, data, len);
	if (r < 0)
		return r;
	if (fsync(fd) < 0 || renameat(dirfd, tmp, dirfd, name) < 0)
		return -errno;
	return 0;
}

int file_write_text(int dirfd, const char *name, const char *text)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

int file_write_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode)
{
	_cleanup_free_ char *tmp = NULL;
	_cleanup_close_ int dir = -1;
	char id[9];
	int r = str_random_id(id, sizeof(id));

	if (r < 0)
		return r;
	tmp = str_printf("%s.tmp-%s", name, id);
	if (!tmp)
		return -ENOMEM;
	r = write_and_rename(dirfd, tmp, name, data, len, mode);
	if (r < 0) {
		(void)unlinkat(dirfd, tmp, 0); /* the first error is the one to report */
		return r;
	}
	dir = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || fsync(dir) < 0)
		return -errno;
	return 0;
}

int file_open_unnamed(int dirfd, const char *path)
{
	_cleanup_free_ char *name = NULL;
	int fd = openat(dirfd, path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), r;
	char id[9];

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd < 0 ? -errno : fd;
	r = str_random_id(id, sizeof(id));
	name = r < 0 ? NULL : str_printf("%s/.unnamed-%s", path, id);
	if (!name)
		return r < 0 ? r : -ENOMEM;
	fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	(void)unlinkat(dirfd, name, 0); /* else it stays for its directory's owner */
	return fd;
}

int file_mkdir_p(const char *path, mode_t mode)
{
	_cleanup_free_ char *p = strdup(path);

	if (!p)
		return -ENOMEM;
	for (char *s = p + 1;; s++) {
		char c = *s;
		struct stat st;

		if (c != '/' && c != '\0')
			continue;
		*s = '\0';
		if (mkdir(p, mode) < 0 && errno != EEXIST)
			return -errno;
		if (c == '\0')
			return stat(p, &st) < 0 ? -errno : S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
		*s = c;
	}
}

enum { TREE_DEPTH_MAX = 128 };

bool file_is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int remove_at(int dirfd, const char *name, dev_t dev, int depth);

static int remove_children(int fd, dev_t dev, int depth)
{
	DIR *d = fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (!d) {
		r = -errno;
		(void)close(fd); /* fdopendir failed, so fd is still ours */
		return r;
	}
	while ((e = readdir(d))) {
		int t;

		if (file_is_dots(e->d_name))
			continue;
		t = remove_at(dirfd(d), e->d_name, dev, depth + 1);
		if (t < 0 && r == 0)
			r = t;
	}
	(void)closedir(d); /* read-only */
	return r;
}

static int remove_at(int dirfd, const char *name, dev_t dev, int depth)
{
	struct stat st;
	int fd, r;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (depth > TREE_DEPTH_MAX)
		return -ELOOP;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || (depth > 0 && st.st_dev != dev)) {
		(void)close(fd); /* read-only */
		return -EXDEV;
	}
	r = remove_children(fd, st.st_dev, depth);
	if (r < 0)
		return r;
	return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

int file_remove_tree(int dirfd, const char *path)
{
	return remove_at(dirfd, path, 0, 0);
}

/* Whatever fails shows when the tree is removed. */
static void open_up(int at, const char *name, int depth)
{
	struct dirent *e;
	DIR *d;

	if (depth > TREE_DEPTH_MAX || fchmodat(at, name, 0700, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	d = file_open_dir(at, name);
	while (d && (e = readdir(d)))
		if (e->d_type == DT_DIR && strcmp(e->d_name, ".") != 0 &&
			strcmp(e->d_name, "..") != 0)
			open_up(dirfd(d), e->d_name, depth + 1);
	if (d)
		(void)closedir(d); /* read-only */
}

int file_remove_own_tree(int dirfd, const char *path)
{
	int r = file_remove_tree(dirfd, path);

	if (r != -EACCES)
		return r;
	open_up(dirfd, path, 0);
	return file_remove_tree(dirfd, path);
}

DIR *file_open_dir(int dirfd, const char *name)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d)
		(void)TAKE_FD(fd); /* closedir closes it */
	return d;
}

bool file_exists(int dirfd, const char *path)
{
	return faccessat(dirfd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int file_free_bytes(int fd, uint64_t *ret)
{
	struct statvfs v;

	if (fstatvfs(fd, &v) < 0)
		return -errno;
	*ret = (uint64_t)v.f_bavail * v.f_frsize;
	return 0;
}

uint64_t file_disk_bytes(int dirfd, const char *path)
{
	struct stat st;

	return fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0
								  : (uint64_t)st.st_blocks * 512;
}

int file_copy_sparse(int from, int to)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return -errno;
	while (at < st.st_size) {
		off_t data = lseek(from, at, SEEK_DATA), end;

		if (data < 0)
			return errno == ENXIO ? 0 : -errno;
		end = lseek(from, data, SEEK_HOLE);
		if (end < 0)
			return -errno;
		while (data < end) {
			loff_t in = data, out = data;
			ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(end - data), 0);

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return n < 0 ? -errno : -EIO;
			data += n;
		}
		at = end;
	}
	return 0;
}
