#include "cli/template/template_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/tree_dir.h"
#include "image/unpack.h"

/* Passes entries on as this user's. */
struct own_sink {
	struct tree_sink sink;
	struct tree_sink *to;
	struct disk_budget *budget;
	uint64_t files, bytes;
};

static struct own_sink *of(struct tree_sink *s)
{
	return (struct own_sink *)(void *)((char *)s - offsetof(struct own_sink, sink));
}

/* Files are written as they are, zeros too. */
static int take(struct own_sink *own, const struct tree_entry *entry, struct error *e)
{
	uint64_t bytes = S_ISREG(entry->mode) && !entry->hardlink ? entry->size : 0;
	int r;

	own->bytes += bytes;
	if (++own->files > TEMPLATE_FILES_MAX || own->bytes > TEMPLATE_FILES_BYTES_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG,
			"the files have more than %d names or %llu bytes", TEMPLATE_FILES_MAX,
			(unsigned long long)TEMPLATE_FILES_BYTES_MAX);
	r = disk_budget_take(own->budget, bytes, e);
	return r == 0 ? disk_budget_room(own->budget, bytes, e) : r;
}

static int add(struct tree_sink *s, const struct tree_entry *entry, const struct tree_data *data,
	struct error *e)
{
	struct own_sink *own = of(s);
	struct tree_entry mine = *entry;
	bool plain = entry->hardlink || S_ISREG(entry->mode) || S_ISDIR(entry->mode) ||
		     S_ISLNK(entry->mode);

	int r = plain ? take(own, entry, e) : 0;

	if (!plain || r < 0)
		return r;
	mine.uid = geteuid();
	mine.gid = getegid();
	mine.xattr_count = 0;
	mine.mode &= ~(uint32_t)(S_ISUID | S_ISGID);
	return own->to->ops->add(own->to, &mine, data, e);
}

static int lookup(struct tree_sink *s, const char *path, struct tree_stat *ret)
{
	return of(s)->to->ops->lookup(of(s)->to, path, ret);
}

static int read_small(struct tree_sink *s, const char *path, char **ret, size_t *ret_len)
{
	return of(s)->to->ops->read(of(s)->to, path, ret, ret_len);
}

int template_files_unpack(int dirfd, const char *name, const char *archive,
	struct disk_budget *budget, struct error *e)
{
	static const struct tree_sink_ops ops = {add, lookup, read_small};
	struct own_sink own = {.sink.ops = &ops, .budget = budget};
	struct tree_dir *dir = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	if (mkdirat(dirfd, name, 0755) < 0)
		return error_set_errno(e, ERROR_NO_SPACE, errno, "cannot make a directory");
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot open a directory");
	r = tree_dir_new(fd, 0, &dir, e);
	if (r < 0)
		return r;
	own.to = tree_dir_sink(dir);
	r = unpack_path(unpack, archive, (struct parse_options){.job = PARSE_TAR}, &own.sink, e);
	if (r == 0)
		r = tree_dir_finish(dir, e);
	tree_dir_free(dir);
	return r;
}
