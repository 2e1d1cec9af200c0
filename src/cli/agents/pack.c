#include "cli/agents/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "dockerfile/ignore.h"

enum { BLOCK = 512, CHUNK = 64 * 1024, LINK_MAX_BYTES = 4096 };

/* A header of a tar archive (POSIX ustar). */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100],
		magic[8], rest[247];
};

_Static_assert(sizeof(struct header) == BLOCK, "a header is a block");

struct packer {
	struct ignore ignore;
	struct packed *to;
	uint64_t bytes_max;
	struct error *e;
};

/* --- the archive --- */

static int write_bytes(struct packer *p, const char *path, const void *data, size_t n)
{
	int r;

	p->to->bytes += n;
	if (p->to->bytes > p->bytes_max)
		return error_set(p->e, ERROR_LIMIT, EFBIG,
			"%s: the agent has more than %llu MiB: leave files out in .dockerignore",
			path, (unsigned long long)(p->bytes_max >> 20));
	r = fd_write_full(p->to->fd, data, n);
	return r < 0 ? error_set_errno(p->e, ERROR_NO_SPACE, -r, "cannot write the archive") : 0;
}

static int write_padding(struct packer *p, const char *path, uint64_t n)
{
	static const char zeros[BLOCK];

	return n % BLOCK ? write_bytes(p, path, zeros, (size_t)(BLOCK - n % BLOCK)) : 0;
}

static int write_header(struct packer *p, const char *path, char type, mode_t mode, uint64_t bytes)
{
	struct header h = {.uid = "0000000",
		.gid = "0000000",
		.mtime = "00000000000",
		.type = type,
		.magic = {'u', 's', 't', 'a', 'r', 0, '0', '0'}};
	unsigned sum = 0;

	(void)snprintf(h.name, sizeof(h.name), "%s", path); /* a pax header has the whole of it */
	(void)snprintf(h.mode, sizeof(h.mode), "%07o", (unsigned)mode & 0777); /* these fit */
	(void)snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)bytes);
	memset(h.sum, ' ', sizeof(h.sum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const uint8_t *)&h)[i];
	(void)snprintf(h.sum, sizeof(h.sum), "%06o", sum & 0777777);
	return write_bytes(p, path, &h, sizeof(h));
}

/* "<length of the record> key=value\n"; the length counts itself. */
static int add_record(struct buf *b, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, all = rest + 1;
	_cleanup_free_ char *text = NULL;

	while (all != rest + (size_t)snprintf(NULL, 0, "%zu", all))
		all = rest + (size_t)snprintf(NULL, 0, "%zu", all);
	text = str_printf("%zu %s=%s\n", all, key, value);
	return text ? buf_add_str(b, text) : -ENOMEM;
}

/* Names of any length stand in a pax header. */
static int write_entry(struct packer *p, const char *path, char type, mode_t mode, uint64_t bytes,
	const char *target)
{
	struct buf pax = BUF_INIT(16384);
	int r = add_record(&pax, "path", path);

	if (r == 0 && target)
		r = add_record(&pax, "linkpath", target);
	if (r < 0)
		(void)error_set(p->e, ERROR_LIMIT, ENAMETOOLONG, "%s: the name is too long", path);
	if (r == 0)
		r = write_header(p, path, 'x', 0644, buf_len(&pax));
	if (r == 0)
		r = write_bytes(p, path, buf_head(&pax), buf_len(&pax));
	if (r == 0)
		r = write_padding(p, path, buf_len(&pax));
	buf_done(&pax);
	return r < 0 ? r : write_header(p, path, type, mode, bytes);
}

/* --- files --- */

static int pack_file(
	struct packer *p, int dirfd, const char *name, const char *path, const struct stat *st)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_free_ char *chunk = malloc(CHUNK);
	uint64_t left = (uint64_t)st->st_size;
	int r = fd < 0 || !chunk ? error_set_errno(p->e, ERROR_USAGE, errno, "cannot read %s", path)
				 : write_entry(p, path, '0', st->st_mode, left, NULL);

	while (r == 0 && left) {
		ssize_t n = read(fd, chunk, left < CHUNK ? (size_t)left : CHUNK);

		if (n <= 0)
			return error_set(
				p->e, ERROR_USAGE, EAGAIN, "%s changes while it is read", path);
		r = write_bytes(p, path, chunk, (size_t)n);
		left -= (uint64_t)n;
	}
	return r < 0 ? r : write_padding(p, path, (uint64_t)st->st_size);
}

static int pack_link(struct packer *p, int dirfd, const char *name, const char *path)
{
	char target[LINK_MAX_BYTES];
	ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);

	if (n < 0)
		return error_set_errno(p->e, ERROR_USAGE, errno, "cannot read %s", path);
	target[n] = '\0';
	return write_entry(p, path, '2', 0777, 0, target);
}

static int pack_folder(struct packer *p, int dirfd, const char *above, int depth);

/* Takes back what was written since. */
static int take_back(struct packer *p, const struct packed *before)
{
	*p->to = *before;
	return ftruncate(before->fd, (off_t)before->bytes) < 0 ||
			       lseek(before->fd, (off_t)before->bytes, SEEK_SET) < 0
		       ? error_set_errno(p->e, ERROR_HOST, errno, "cannot write the archive")
		       : 0;
}

/* excluded: it is there only for what is taken back in. */
static int pack_below(
	struct packer *p, int dirfd, const char *name, const char *path, int depth, bool excluded)
{
	const struct packed before = *p->to;
	uint64_t begun;
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? error_set_errno(p->e, ERROR_USAGE, errno, "cannot read %s", path) : 0;

	if (r == 0 && depth >= PACK_DEPTH_MAX)
		r = error_set(p->e, ERROR_LIMIT, ELOOP, "%s is below more than %d folders", path,
			PACK_DEPTH_MAX);
	if (r == 0)
		r = write_entry(p, path, '5', 0755, 0, NULL);
	begun = p->to->bytes;
	if (r == 0)
		r = pack_folder(p, fd, path, depth + 1);
	if (r == 0 && excluded && p->to->bytes == begun)
		r = take_back(p, &before);
	if (fd >= 0)
		(void)close(fd); /* a directory */
	return r;
}

static int pack_entry(struct packer *p, int dirfd, const char *name, const char *above, int depth)
{
	_cleanup_free_ char *path = str_printf("%s%s%s", above, *above ? "/" : "", name);
	struct stat st;
	bool excluded;

	if (!path)
		return error_set(p->e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set_errno(p->e, ERROR_USAGE, errno, "cannot read %s", path);
	/* what is in an excluded folder may be taken back in */
	excluded = ignore_excludes(&p->ignore, path);
	if (excluded && !(S_ISDIR(st.st_mode) && p->ignore.any_again))
		return 0;
	if (S_ISDIR(st.st_mode))
		return pack_below(p, dirfd, name, path, depth, excluded);
	p->to->files++;
	if (S_ISREG(st.st_mode))
		return pack_file(p, dirfd, name, path, &st);
	return S_ISLNK(st.st_mode) ? pack_link(p, dirfd, name, path) : 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int pack_folder(struct packer *p, int dirfd, const char *above, int depth)
{
	struct dirent **names = NULL;
	int r = 0, n = scandirat(dirfd, ".", &names, NULL, by_name);

	if (n < 0)
		return error_set_errno(
			p->e, ERROR_USAGE, errno, "cannot read %s", *above ? above : ".");
	for (int i = 0; i < n; i++) {
		if (r == 0 && !file_is_dots(names[i]->d_name))
			r = pack_entry(p, dirfd, names[i]->d_name, above, depth);
		free(names[i]);
	}
	free(names);
	return r;
}

/* --- all of it --- */

static int read_ignore(int dirfd, struct ignore *ret, struct error *e)
{
	static const char usual[] = ".git\n**/node_modules\n**/__pycache__\n.venv\n";
	_cleanup_free_ char *own = NULL, *text = NULL;
	size_t n = 0;
	int r = file_read(dirfd, ".dockerignore", IGNORE_BYTES_MAX, &own, &n);

	if (r < 0 && r != -ENOENT)
		return error_set_errno(e, ERROR_USAGE, -r, "cannot read .dockerignore");
	text = str_printf("%s%s", usual, own ? own : "");
	r = text ? ignore_parse(text, strlen(text), ret, e)
		 : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (r < 0)
		error_prefix(e, ".dockerignore");
	return r;
}

/* Opens a file without a name. It vanishes when it is closed. */
static int open_file(struct error *e)
{
	const char *dir = getenv("TMPDIR");
	int fd = file_open_unnamed(AT_FDCWD, dir ? dir : "/tmp");

	return fd < 0 ? error_set_errno(
				e, ERROR_HOST, -fd, "cannot make a file in %s", dir ? dir : "/tmp")
		      : fd;
}

int pack_directory(const char *dir, uint64_t bytes_max, struct packed *ret, struct error *e)
{
	static const char end[2 * BLOCK];
	struct packer p = {.to = ret, .bytes_max = bytes_max, .e = e};
	_cleanup_close_ int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	*ret = (struct packed){.fd = -1};
	if (dirfd < 0)
		return error_set_errno(e, ERROR_USAGE, errno, "cannot read the directory %s", dir);
	r = read_ignore(dirfd, &p.ignore, e);
	if (r == 0)
		r = ret->fd = open_file(e);
	if (r >= 0)
		r = pack_folder(&p, dirfd, "", 0);
	if (r == 0)
		r = write_bytes(&p, dir, end, sizeof(end));
	ignore_done(&p.ignore);
	if (r < 0 && ret->fd >= 0)
		cleanup_close_p(&ret->fd);
	return r;
}
