#include "image/parse.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "image/parse_internal.h"

int parse(const struct parse_options *o, struct tree_sink *to, struct error *e)
{
	switch (o->job) {
	case PARSE_TAR:
		return parse_tar(o->fd, true, to, e);
	case PARSE_NAMES:
		return parse_tar(o->fd, false, to, e);
	case PARSE_ARCHIVE:
		return parse_archive(o->fd, o->folder, to, e);
	case PARSE_DEB:
		return parse_deb(o->fd, to, e);
	case PARSE_KERNEL:
		return parse_kernel(o->fd, to, e);
	case PARSE_MODULE:
		return parse_module(o->fd, to, e);
	case PARSE_DOCUMENT:
		return parse_document(o->fd, to, e);
	default:
		return error_set(e, ERROR_INTERNAL, EINVAL, "no such file to read");
	}
}

/* --- for all of them --- */

void parse_free(struct archive **a)
{
	(void)archive_read_free(*a); /* read-only */
}

int parse_count(struct parse_count *c, int64_t size, struct error *e)
{
	c->bytes += size > 0 ? (uint64_t)size : 0;
	if (++c->files > PARSE_FILES_MAX || size > PARSE_BYTES_MAX || c->bytes > PARSE_BYTES_MAX)
		return error_set(e, ERROR_BAD_IMAGE, EFBIG,
			"it is too large: at most %d files of %d MiB in all", PARSE_FILES_MAX,
			PARSE_BYTES_MAX >> 20);
	return 0;
}

struct content {
	struct archive *archive;
	uint64_t left;
};

static ssize_t read_content(void *opaque, void *buf, size_t n)
{
	struct content *c = opaque;
	la_ssize_t r;

	if (n > c->left)
		n = (size_t)c->left;
	if (n == 0)
		return 0;
	r = archive_read_data(c->archive, buf, n);
	if (r <= 0)
		return -EBADMSG; /* less than the entry says */
	c->left -= (uint64_t)r;
	return r;
}

int parse_emit(struct archive *a, const char *path, int64_t size, int64_t mtime, uint64_t max,
	struct tree_sink *to, struct error *e)
{
	struct content c = {a, (uint64_t)size};
	struct tree_data d = {read_content, &c};
	struct tree_entry t = {
		.path = path, .mode = S_IFREG | 0644, .mtime = mtime, .size = (uint64_t)size};

	if (size < 0 || (uint64_t)size > max)
		return error_set(e, ERROR_BAD_IMAGE, EFBIG, "%.200s has an impossible size", path);
	return to->ops->add(to, &t, &d, e);
}
