#include "build/copy_archive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "dockerfile/path.h"
#include "image/unpack.h"

bool copy_is_archive(const uint8_t *p, size_t n)
{
	static const struct {
		size_t at, n;
		const char *magic;
	} known[] = {{0, 2, "\x1f\x8b"}, {0, 3, "BZh"},
		{0, 6,
			"\xfd"
			"7zXZ"},
		{0, 4, "\x28\xb5\x2f\xfd"}, {257, 5, "ustar"}};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (n >= known[i].at + known[i].n &&
			memcmp(p + known[i].at, known[i].magic, known[i].n) == 0)
			return true;
	return false;
}

/* What the archive has, on its way into the guest. */
struct arrival {
	struct tree_sink sink; /* first */
	const struct copy *copy;
	const char *to;
	size_t count;
};

static int put_data(
	const struct copy *c, const char *path, const struct tree_data *data, struct error *e)
{
	_cleanup_free_ uint8_t *chunk = malloc(MACHINE_CHUNK_BYTES);
	ssize_t n = 1;
	int r = chunk ? copy_clear_place(c, path, e)
		      : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");

	for (bool more = false; r == 0 && (n > 0 || !more); more = true) {
		size_t have = 0;

		while (have < MACHINE_CHUNK_BYTES && (n = data->read(data->opaque, chunk + have,
							      MACHINE_CHUNK_BYTES - have)) > 0)
			have += (size_t)n;
		if (n < 0)
			return error_set_errno(e, ERROR_BAD_IMAGE, (int)-n, "cannot read %s", path);
		if (have || !more)
			r = machine_write(c->machine, path, 0600, more, chunk, have, e);
	}
	return r;
}

/* As the last, since a new owner takes a capability away. */
static int put_xattrs(
	const struct copy *c, const char *path, const struct tree_entry *t, struct error *e)
{
	struct files_xattrs x = {.count = 0};

	for (size_t i = 0; i < t->xattr_count; i++)
		files_xattrs_take(&x, t->xattrs[i].name, t->xattrs[i].value, t->xattrs[i].size);
	return copy_put_xattrs(c, path, &x, e);
}

static int put_entry(const struct arrival *a, const struct tree_entry *x, const char *path,
	const struct tree_data *data, struct error *e)
{
	const struct files_entry f = {.path = x->path,
		.mode = x->mode,
		.uid = x->uid,
		.gid = x->gid,
		.mtime_ns = x->mtime * (int64_t)NS_PER_S,
		.size = x->size,
		.target = x->symlink ? x->symlink : ""};
	int r;

	switch (x->mode & S_IFMT) {
	case S_IFREG:
		r = put_data(a->copy, path, data, e);
		if (r == 0)
			r = copy_set_attributes(a->copy, path, &f, e);
		return r < 0 ? r : put_xattrs(a->copy, path, x, e);
	case S_IFDIR:
		r = copy_put_folder(a->copy, path, &f, e);
		return r < 0 ? r : put_xattrs(a->copy, path, x, e);
	case S_IFLNK:
		return copy_put_link(a->copy, path, &f, e);
	default:
		return 0; /* devices */
	}
}

static int add(struct tree_sink *s, const struct tree_entry *x, const struct tree_data *data,
	struct error *e)
{
	struct arrival *a = (struct arrival *)(void *)s;
	char path[BUILD_PATH_MAX], target[BUILD_PATH_MAX];
	int r = a->count++ ? 0 : copy_put_folder(a->copy, a->to, NULL, e);

	if (r < 0)
		return r;
	if (!*x->path)
		return 0; /* the folder is there */
	if (!path_resolve(a->to, x->path, path))
		return error_set(e, ERROR_LIMIT, ENAMETOOLONG, "%.200s: too long", x->path);
	if (!x->hardlink)
		return put_entry(a, x, path, data, e);
	return path_resolve(a->to, x->hardlink, target)
		       ? copy_put_hard_link(a->copy, path, target, e)
		       : error_set(e, ERROR_LIMIT, ENAMETOOLONG, "%.200s: too long", x->hardlink);
}

static int lookup(struct tree_sink *s, const char *path, struct tree_stat *ret)
{
	return -ENOENT;
}

static int read_small(struct tree_sink *s, const char *path, char **ret, size_t *ret_len)
{
	return -ENOENT;
}

int copy_archive(const struct copy *c, const struct files_entry *f, const char *to, struct error *e)
{
	static const struct tree_sink_ops ops = {add, lookup, read_small};
	struct arrival a = {.sink.ops = &ops, .copy = c, .to = to};
	_cleanup_close_ int fd = c->from->open ? c->from->open(c->from, f->path, e) : -1;
	struct error why = {0};
	int r;

	if (fd < 0)
		return c->from->open ? fd : 0;
	r = unpack(&(struct parse_options){.job = PARSE_TAR, .fd = fd}, &a.sink, &why);
	if (r == 0)
		return 1;
	if (a.count == 0 && why.code == ERROR_BAD_IMAGE)
		return 0;
	(void)error_set(e, why.code, why.err, "%s", why.message); /* r is returned */
	error_prefix(e, "%.200s", f->path);
	return r;
}
