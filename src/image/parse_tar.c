/* Root file systems from tar streams. libarchive only parses; nothing is unpacked. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/parse_internal.h"

struct input {
	int fd;
	int r; /* 0, or -errno of a read that failed */
	char data[PARSE_PIECE];
};

static la_ssize_t read_input(struct archive *a, void *opaque, const void **ret)
{
	struct input *in = opaque;
	ssize_t n;

	do {
		n = read(in->fd, in->data, sizeof(in->data));
	} while (n < 0 && errno == EINTR);
	*ret = in->data;
	if (n < 0) {
		in->r = -errno;
		archive_set_error(a, errno, "reading failed");
		return ARCHIVE_FATAL;
	}
	return n;
}

/* Reads content in file order and fills holes with zeros. */
struct content {
	struct archive *a;
	const uint8_t *block; /* libarchive's current block */
	size_t block_len;
	uint64_t block_at, at, size;
};

static ssize_t read_content(void *opaque, void *buf, size_t n)
{
	struct content *c = opaque;
	uint64_t left = c->size - c->at;
	const void *p;
	la_int64_t offset;

	while (c->at >= c->block_at + c->block_len && left > 0) {
		int r = archive_read_data_block(c->a, &p, &c->block_len, &offset);

		if (r == ARCHIVE_EOF) {
			c->block_at = c->size; /* a hole up to the end */
			c->block_len = 0;
			break;
		}
		if (r != ARCHIVE_OK || offset < 0 || (uint64_t)offset < c->at)
			return -EBADMSG;
		c->block = p;
		c->block_at = (uint64_t)offset;
	}
	if (n > left)
		n = (size_t)left;
	if (c->at < c->block_at) {
		if (n > c->block_at - c->at)
			n = (size_t)(c->block_at - c->at);
		memset(buf, 0, n);
	} else if (n > 0) {
		size_t skip = (size_t)(c->at - c->block_at);

		if (n > c->block_len - skip)
			n = c->block_len - skip;
		memcpy(buf, c->block + skip, n);
	}
	c->at += n;
	return (ssize_t)n;
}

/* The plain functions return the bytes of the archive. They return NULL for UTF-8 names that the
 * locale cannot show. */
static const char *path_of(struct archive_entry *entry)
{
	const char *p = archive_entry_pathname(entry);

	return p ? p : archive_entry_pathname_utf8(entry);
}

static const char *hardlink_of(struct archive_entry *entry)
{
	const char *p = archive_entry_hardlink(entry);

	return p ? p : archive_entry_hardlink_utf8(entry);
}

static const char *symlink_of(struct archive_entry *entry)
{
	const char *p = archive_entry_symlink(entry);

	return p ? p : archive_entry_symlink_utf8(entry);
}

static int bad(struct error *e, const char *path, const char *what)
{
	return error_set(e, ERROR_BAD_IMAGE, EINVAL, "the tar entry %.200s %s", path, what);
}

struct attributes {
	struct tree_xattr items[TREE_XATTRS_MAX];
	size_t count;
};

static int read_xattrs(struct archive_entry *entry, struct attributes *x)
{
	const char *name;
	const void *value;
	size_t size;

	(void)archive_entry_xattr_reset(entry); /* returns the count */
	while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
		size_t n = strlen(name);

		if (x->count == TREE_XATTRS_MAX || size > TREE_XATTR_BYTES_MAX || n == 0 ||
			n > TREE_XATTR_NAME_MAX)
			return -E2BIG;
		x->items[x->count++] = (struct tree_xattr){name, value, size};
	}
	return 0;
}

static ssize_t read_nothing(void *opaque, void *buf, size_t n)
{
	return 0;
}

static int add_entry(struct archive *a, struct archive_entry *entry, bool content,
	struct tree_sink *to, struct error *e)
{
	const char *raw = path_of(entry), *link = hardlink_of(entry);
	char path[TREE_PATH_MAX], target[TREE_PATH_MAX];
	struct attributes x = {.count = 0};
	struct content c = {.a = a, .size = (uint64_t)archive_entry_size(entry)};
	struct tree_data d = {content ? read_content : read_nothing, &c};
	struct tree_entry t = {.path = path,
		.mode = archive_entry_mode(entry),
		.uid = (uint32_t)archive_entry_uid(entry),
		.gid = (uint32_t)archive_entry_gid(entry),
		.mtime = archive_entry_mtime(entry),
		.xattrs = x.items};

	if (!raw || !tree_clean_path(raw, path))
		return bad(e, raw ? raw : "?", "has an unusable path");
	if (link) {
		if (!tree_clean_path(link, target) || !*target || !*path)
			return bad(e, path, "links to an unusable path");
		t.hardlink = target;
		return to->ops->add(to, &t, NULL, e);
	}
	if (read_xattrs(entry, &x) < 0)
		return bad(e, path, "has too many or too large extended attributes");
	t.xattr_count = x.count;
	switch (t.mode & S_IFMT) {
	case S_IFREG:
		if (archive_entry_size(entry) < 0)
			return bad(e, path, "has an impossible size");
		t.size = c.size;
		break;
	case S_IFLNK:
		t.symlink = symlink_of(entry);
		if (!t.symlink || !*t.symlink || strlen(t.symlink) >= TREE_PATH_MAX)
			return bad(e, path, "is a symbolic link to nowhere");
		break;
	case S_IFCHR:
	case S_IFBLK:
		t.rdev = archive_entry_rdev(entry);
		break;
	case S_IFDIR:
	case S_IFIFO:
	case S_IFSOCK:
		break;
	default:
		return bad(e, path, "is of an unknown kind");
	}
	return to->ops->add(to, &t, S_ISREG(t.mode) ? &d : NULL, e);
}

static int read_error(const struct input *in, struct archive *a, struct error *e)
{
	if (in->r < 0)
		return error_set_errno(e, ERROR_HOST, -in->r, "cannot read the tar file");
	return error_set(e, ERROR_BAD_IMAGE, EINVAL, "the tar file is damaged or truncated: %.200s",
		archive_error_string(a) ? archive_error_string(a) : "unknown format");
}

int parse_tar(int fd, bool content, struct tree_sink *to, struct error *e)
{
	_cleanup_(parse_free) struct archive *a = archive_read_new();
	_cleanup_free_ struct input *in = calloc(1, sizeof(*in));
	struct archive_entry *entry;
	int r;

	if (!a || !in)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	in->fd = fd;
	(void)archive_read_support_filter_gzip(a); /* not "all": some filters run programs */
	(void)archive_read_support_filter_bzip2(a);
	(void)archive_read_support_filter_xz(a);
	(void)archive_read_support_filter_zstd(a);
	(void)archive_read_support_format_tar(a);
	if (archive_read_open(a, in, NULL, read_input, NULL) != ARCHIVE_OK)
		return read_error(in, a, e);
	/* ARCHIVE_WARN: the locale cannot show a name or attribute; add_entry handles it */
	while ((r = archive_read_next_header(a, &entry)) == ARCHIVE_OK || r == ARCHIVE_WARN) {
		r = add_entry(a, entry, content, to, e);
		if (r < 0)
			return r;
	}
	return r == ARCHIVE_EOF ? 0 : read_error(in, a, e);
}
