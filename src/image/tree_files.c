#include "image/tree_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* Makes the directories above a file. */
static int make_parents(int dirfd, const char *path)
{
	char dir[TREE_PATH_MAX];

	for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/')) {
		size_t n = (size_t)(p - path);

		memcpy(dir, path, n);
		dir[n] = '\0';
		if (mkdirat(dirfd, dir, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

static int copy(int fd, const struct tree_entry *t, const struct tree_data *d)
{
	const struct timespec times[2] = {{.tv_sec = t->mtime}, {.tv_sec = t->mtime}};
	uint64_t done = 0;
	uint8_t data[16384];
	ssize_t n;
	int r;

	while (done < t->size && (n = d->read(d->opaque, data, sizeof(data))) != 0) {
		r = n < 0 ? (int)n : fd_write_full(fd, data, (size_t)n);
		if (r < 0)
			return r;
		done += (uint64_t)n;
	}
	if (done != t->size)
		return -EBADMSG;
	return t->mtime && futimens(fd, times) < 0 ? -errno : 0;
}

static int write_file(struct tree_files *f, const struct tree_entry *t, const struct tree_data *d)
{
	_cleanup_close_ int fd = -1;
	int r = make_parents(f->fd, t->path);

	if (r < 0)
		return r;
	fd = openat(f->fd, t->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return errno == EEXIST && f->keep_first ? 0 : -errno;
	r = copy(fd, t, d);
	return r == 0 && f->durable && fsync(fd) < 0 ? -errno : r;
}

static int add(
	struct tree_sink *s, const struct tree_entry *t, const struct tree_data *d, struct error *e)
{
	struct tree_files *f = (struct tree_files *)(void *)s; /* its first member */
	int r;

	if (!S_ISREG(t->mode) || t->hardlink || !*t->path)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL, "%.200s is no plain file", t->path);
	if (++f->files > f->files_max || t->size > f->bytes_max - f->bytes)
		return error_set(e, ERROR_BAD_IMAGE, EFBIG, "it is too large");
	f->bytes += t->size;
	r = write_file(f, t, d);
	if (r == -EBADMSG || r == -EEXIST || r == -ENOTDIR || r == -EISDIR)
		return error_set(e, ERROR_BAD_IMAGE, -r, "it is damaged at %.200s", t->path);
	return r < 0 ? error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			       "cannot write %.200s", t->path)
		     : 0;
}

void tree_files_init(struct tree_files *t)
{
	static const struct tree_sink_ops ops = {.add = add};

	t->sink.ops = &ops;
	t->files = t->bytes = 0;
}
