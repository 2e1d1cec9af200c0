/* A linux-image package: an ar archive with a tar archive in it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "image/kernel.h"
#include "image/parse_internal.h"

enum { CONFIG_MAX = 4 << 20 };

struct inner {
	struct archive *outer;
	char data[PARSE_PIECE];
};

static la_ssize_t read_inner(struct archive *a, void *opaque, const void **ret)
{
	struct inner *in = opaque;

	*ret = in->data;
	return archive_read_data(in->outer, in->data, sizeof(in->data));
}

static int damaged(struct error *e)
{
	return error_set(e, ERROR_BAD_IMAGE, EINVAL, "it is no intact Debian package");
}

struct package {
	struct archive *data;
	struct tree_sink *to;
	struct parse_count count;
	bool has_kernel;
};

/* Takes the wanted files, chosen by their path in the package. Only last components become file
 * names. */
static int take_file(struct package *p, const char *path, int64_t size, struct error *e)
{
	const char *base = strrchr(path, '/');
	char name[300];

	base = base ? base + 1 : path;
	if (str_starts_with(path, "boot/vmlinuz-")) {
		p->has_kernel = true;
		return parse_emit(p->data, "vmlinuz", size, 0, KERNEL_FILE_MAX, p->to, e);
	}
	if (str_starts_with(path, "boot/config-"))
		return parse_emit(p->data, "config", size, 0, CONFIG_MAX, p->to, e);
	if (!str_starts_with(path, "lib/modules/") || strlen(base) > 255 ||
		!(strstr(base, ".ko") || strcmp(base, "modules.builtin") == 0))
		return 0;
	(void)snprintf(name, sizeof(name), "modules/%s", base); /* fits */
	return parse_emit(p->data, name, size, 0, PARSE_MODULE_MAX, p->to, e);
}

static int take_entry(struct package *p, struct archive_entry *entry, struct error *e)
{
	const char *path = archive_entry_pathname(entry);
	int r;

	if (!path || archive_entry_filetype(entry) != S_IFREG)
		return 0;
	r = parse_count(&p->count, archive_entry_size(entry), e);
	path += strspn(path, "./");
	if (str_starts_with(path, "usr/"))
		path += 4;
	return r < 0 ? r : take_file(p, path, archive_entry_size(entry), e);
}

static int take_data(struct archive *outer, struct tree_sink *to, struct error *e)
{
	_cleanup_(parse_free) struct archive *a = archive_read_new();
	_cleanup_free_ struct inner *in = malloc(sizeof(*in));
	struct package p = {.data = a, .to = to};
	struct archive_entry *entry;
	int r;

	if (!a || !in)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	in->outer = outer;
	(void)archive_read_support_filter_gzip(a);
	(void)archive_read_support_filter_xz(a);
	(void)archive_read_support_filter_zstd(a);
	(void)archive_read_support_format_tar(a);
	if (archive_read_open(a, in, NULL, read_inner, NULL) != ARCHIVE_OK)
		return damaged(e);
	while ((r = archive_read_next_header(a, &entry)) == ARCHIVE_OK) {
		r = take_entry(&p, entry, e);
		if (r < 0)
			return r;
	}
	if (r != ARCHIVE_EOF)
		return damaged(e);
	return p.has_kernel ? 0
			    : error_set(e, ERROR_BAD_IMAGE, ENOENT,
				      "it holds no kernel (boot/vmlinuz-*): give a linux-image "
				      "package");
}

int parse_deb(int fd, struct tree_sink *to, struct error *e)
{
	_cleanup_(parse_free) struct archive *a = archive_read_new();
	struct archive_entry *entry;

	if (!a)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	(void)archive_read_support_format_ar(a);
	if (archive_read_open_fd(a, fd, PARSE_PIECE) != ARCHIVE_OK)
		return damaged(e);
	while (archive_read_next_header(a, &entry) == ARCHIVE_OK) {
		const char *name = archive_entry_pathname(entry);

		if (name && str_starts_with(name, "data.tar"))
			return take_data(a, to, e);
	}
	return damaged(e);
}
