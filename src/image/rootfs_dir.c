/* Root file systems from directories of the host, and the generated one with busybox. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "image/rootfs_internal.h"
#include "io/child.h"

enum { LINKS_MAX = 65536 };

/* Files with several names: each further name becomes a link to the first. */
struct seen {
	dev_t dev;
	ino_t ino;
	char *path; /* owned */
};

struct walk {
	struct rootfs *f;
	const char *root;
	size_t root_len;
	bool squash;
	struct seen *seen;
	size_t seen_count;
};

static void walk_done(struct walk *w)
{
	for (size_t i = 0; i < w->seen_count; i++)
		free(w->seen[i].path);
	free(w->seen);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static const char *first_name(struct walk *w, const struct stat *st, const char *path)
{
	for (size_t i = 0; i < w->seen_count; i++)
		if (w->seen[i].ino == st->st_ino && w->seen[i].dev == st->st_dev)
			return w->seen[i].path;
	if (!w->seen)
		w->seen = calloc(LINKS_MAX, sizeof(*w->seen));
	if (w->seen && w->seen_count < LINKS_MAX) { /* otherwise they become separate files */
		char *copy = strdup(path);

		if (copy)
			w->seen[w->seen_count++] = (struct seen){st->st_dev, st->st_ino, copy};
	}
	return NULL;
}

struct host_xattrs {
	char names[4096];
	struct tree_xattr items[TREE_XATTRS_MAX];
	uint8_t values[TREE_XATTRS_MAX][TREE_XATTR_BYTES_MAX];
	size_t count;
};

/* Takes only attributes that mean the same in a guest: capabilities and user attributes. */
static void read_xattrs(const char *path, struct host_xattrs *x)
{
	ssize_t n = llistxattr(path, x->names, sizeof(x->names));

	x->count = 0;
	for (ssize_t at = 0; at < n && x->count < TREE_XATTRS_MAX;) {
		const char *name = x->names + at;
		ssize_t size = -1;

		if (strcmp(name, "security.capability") == 0 || str_starts_with(name, "user."))
			size = lgetxattr(path, name, x->values[x->count], TREE_XATTR_BYTES_MAX);
		if (size >= 0) {
			x->items[x->count] =
				(struct tree_xattr){name, x->values[x->count], (size_t)size};
			x->count++;
		}
		at += (ssize_t)strlen(name) + 1;
	}
}

static ssize_t read_fd(void *opaque, void *buf, size_t n)
{
	ssize_t r;

	do {
		r = read(*(int *)opaque, buf, n);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

static int add_regular(struct walk *w, const char *host_path, struct tree_entry *t, struct error *e)
{
	_cleanup_close_ int fd = open(host_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct tree_data d = {read_fd, &fd};
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set_errno(e, ERROR_HOST, errno, "cannot read %s", host_path);
	t->size = (uint64_t)st.st_size;
	return rootfs_add(w->f, t, &d, e);
}

static int add_found(struct walk *w, const FTSENT *ent, struct host_xattrs *x, struct error *e)
{
	const struct stat *st = ent->fts_statp;
	char path[TREE_PATH_MAX], target[TREE_PATH_MAX];
	struct tree_entry t = {.path = path,
		.mode = st->st_mode,
		.mtime = st->st_mtim.tv_sec,
		.uid = w->squash ? 0 : st->st_uid,
		.gid = w->squash ? 0 : st->st_gid,
		.rdev = st->st_rdev};
	ssize_t n;

	if (!tree_clean_path(ent->fts_path + w->root_len, path))
		return error_set(e, ERROR_BAD_IMAGE, ENAMETOOLONG, "the path %.200s is too long",
			ent->fts_path);
	if (!S_ISDIR(st->st_mode) && st->st_nlink > 1)
		t.hardlink = first_name(w, st, path);
	if (t.hardlink)
		return rootfs_add(w->f, &t, NULL, e);
	read_xattrs(ent->fts_path, x);
	t.xattrs = x->items;
	t.xattr_count = x->count;
	if (S_ISREG(st->st_mode))
		return add_regular(w, ent->fts_path, &t, e);
	if (S_ISLNK(st->st_mode)) {
		n = readlink(ent->fts_path, target, sizeof(target) - 1);
		if (n < 0)
			return error_set_errno(
				e, ERROR_HOST, errno, "cannot read %s", ent->fts_path);
		target[n] = '\0';
		t.symlink = target;
	}
	return rootfs_add(w->f, &t, NULL, e);
}

static int add_all(struct walk *w, FTS *fts, struct error *e)
{
	_cleanup_free_ struct host_xattrs *x = malloc(sizeof(*x));
	FTSENT *ent;
	int r = 0;

	if (!x)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	while (r == 0 && (ent = fts_read(fts))) {
		switch (ent->fts_info) {
		case FTS_DP: /* the second visit of a directory */
			break;
		case FTS_DNR:
		case FTS_ERR:
		case FTS_NS:
			r = error_set_errno(
				e, ERROR_HOST, ent->fts_errno, "cannot read %s", ent->fts_path);
			break;
		default:
			r = add_found(w, ent, x, e);
		}
	}
	return r;
}

int rootfs_add_directory(struct rootfs *f, const char *path, bool squash, struct error *e)
{
	_cleanup_(walk_done) struct walk w = {
		.f = f, .root = path, .root_len = strlen(path), .squash = squash};
	_cleanup_free_ char *root = strdup(path);
	char *const roots[] = {root, NULL};
	struct stat st;
	FTS *fts;
	int r;

	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return error_set(e, ERROR_NOT_FOUND, ENOTDIR, "%s is not a directory", path);
	fts = root ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV | FTS_COMFOLLOW, by_name)
		   : NULL;
	if (!fts)
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot walk %s", path);
	r = add_all(&w, fts, e);
	(void)fts_close(fts); /* read-only */
	return r;
}

static int add_dir(
	struct rootfs *f, const char *path, uint32_t mode, int64_t epoch, struct error *e)
{
	struct tree_entry t = {.path = path, .mode = S_IFDIR | mode, .mtime = epoch};

	return rootfs_add(f, &t, NULL, e);
}

static int add_link(
	struct rootfs *f, const char *path, const char *target, int64_t epoch, struct error *e)
{
	struct tree_entry t = {
		.path = path, .mode = S_IFLNK | 0777, .mtime = epoch, .symlink = target};

	return rootfs_add(f, &t, NULL, e);
}

static int add_program(
	struct rootfs *f, const char *host_path, const char *path, int64_t epoch, struct error *e)
{
	_cleanup_close_ int fd = open(host_path, O_RDONLY | O_CLOEXEC);
	struct tree_data d = {read_fd, &fd};
	struct tree_entry t = {.path = path, .mode = S_IFREG | 0755, .mtime = epoch};
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(e, ERROR_HOST, ENOENT,
			"this host has no %s: install busybox-static", host_path);
	t.size = (uint64_t)st.st_size;
	return rootfs_add(f, &t, &d, e);
}

static int add_applets(struct rootfs *f, const char *busybox, int64_t epoch, struct error *e)
{
	const char *argv[] = {busybox, "--list", NULL};
	static const struct io_workshop workshop = {.user = "nobody"};
	struct child_options o = {.argv = argv, .timeout_ns = 10 * NS_PER_S, .workshop = &workshop};
	struct buf list = BUF_INIT(1 << 20);
	char path[128], *save = NULL;
	int r = child_run(&o, &list, e);

	if (r == 0 && buf_add_u8(&list, 0) < 0)
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	for (char *p = r == 0 ? strtok_r((char *)list.data + list.start, "\n", &save) : NULL;
		p && r == 0; p = strtok_r(NULL, "\n", &save)) {
		if (strcmp(p, "busybox") == 0 || strchr(p, '/') || strlen(p) > 64)
			continue;
		(void)snprintf(path, sizeof(path), "bin/%s", p);
		r = add_link(f, path, "busybox", epoch, e);
	}
	buf_done(&list);
	return r;
}

int rootfs_add_busybox(struct rootfs *f, struct error *e)
{
	static const char host[] = "/bin/busybox";
	static const struct {
		const char *path;
		uint32_t mode;
	} dirs[] = {{"", 0755}, {"bin", 0755}, {"dev", 0755}, {"etc", 0755}, {"home", 0755},
		{"proc", 0755}, {"root", 0700}, {"run", 0755}, {"sys", 0755}, {"tmp", 01777},
		{"usr", 0755}, {"var", 0755}, {"var/log", 0755}, {"var/tmp", 01777}};
	static const char *const links[][2] = {{"sbin", "bin"}, {"usr/bin", "../bin"},
		{"usr/sbin", "../bin"}, {"var/run", "../run"}};
	int64_t epoch = f->epoch;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
		r = add_dir(f, dirs[i].path, dirs[i].mode, epoch, e);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(links); i++)
		r = add_link(f, links[i][0], links[i][1], epoch, e);
	if (r == 0)
		r = add_program(f, host, "bin/busybox", epoch, e);
	if (r == 0)
		r = add_applets(f, host, epoch, e);
	if (r == 0)
		r = rootfs_put(f, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n",
			(struct tree_stat){0644, 0, 0}, epoch, e);
	if (r == 0)
		r = rootfs_put(
			f, "etc/group", "root:x:0:\n", (struct tree_stat){0644, 0, 0}, epoch, e);
	return r == 0 ? rootfs_put(f, "etc/shadow", "root:*:19000:0:99999:7:::\n",
				(struct tree_stat){0600, 0, 0}, epoch, e)
		      : r;
}
