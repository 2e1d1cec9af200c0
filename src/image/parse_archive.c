/* A folder of an archive of libraries: jar, zip or tar. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/parse_internal.h"

/* The part of an entry's path below the folder, or NULL. */
static const char *path_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	path += strspn(path, "./");
	if (strncmp(path, folder, n) != 0 || path[n] != '/')
		return NULL;
	path += n + 1;
	return *path ? path : NULL;
}

static int damaged(struct error *e)
{
	return error_set(e, ERROR_BAD_IMAGE, EBADMSG, "it is damaged");
}

struct unpacking {
	struct archive *archive;
	const char *folder;
	struct tree_sink *to;
	struct parse_count count;
};

static int take_entry(struct unpacking *u, struct archive_entry *entry, struct error *e)
{
	const char *path = archive_entry_pathname(entry), *name;
	char clean[TREE_PATH_MAX];
	int64_t size = archive_entry_size_is_set(entry) ? archive_entry_size(entry) : -1;
	int r;

	name = path ? path_below(path, u->folder) : NULL;
	if (!name || archive_entry_filetype(entry) != AE_IFREG)
		return 0;
	if (*name == '/' || !tree_clean_path(name, clean) || !*clean)
		return damaged(e);
	r = parse_count(&u->count, size, e);
	if (r < 0)
		return r;
	return parse_emit(
		u->archive, clean, size, archive_entry_mtime(entry), PARSE_BYTES_MAX, u->to, e);
}

static int take_entries(struct unpacking *u, struct error *e)
{
	struct archive_entry *entry;
	int r;

	while ((r = archive_read_next_header(u->archive, &entry)) == ARCHIVE_OK) {
		r = take_entry(u, entry, e);
		if (r < 0)
			return r;
	}
	return r == ARCHIVE_EOF ? 0 : damaged(e);
}

int parse_archive(int fd, const char *folder, struct tree_sink *to, struct error *e)
{
	_cleanup_(parse_free) struct archive *a = archive_read_new();
	struct unpacking u = {.archive = a, .folder = folder, .to = to};
	int r;

	if (!a)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	(void)archive_read_support_format_zip(a); /* opening reports what is missing */
	(void)archive_read_support_format_tar(a);
	(void)archive_read_support_filter_gzip(a);
	(void)archive_read_support_filter_xz(a);
	if (archive_read_open_fd(a, fd, PARSE_PIECE) != ARCHIVE_OK)
		return damaged(e);
	r = take_entries(&u, e);
	if (r == 0 && u.count.files == 0)
		return error_set(e, ERROR_BAD_IMAGE, ENOENT, "it has nothing below %s", folder);
	return r;
}
