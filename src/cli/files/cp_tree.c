#include "cli/files/cp_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/clean.h"
#include "cli/files/partial.h"

static int out_of_memory(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

static void leave_out(struct cp *cp, const char *path, const char *why)
{
	_cleanup_free_ char *text = str_printf("%s: left out: %s", path, why);

	cp->left_out++;
	clean_print_error("mayfly: ", text ? text : "out of memory");
}

/* Whether the rest can still be copied after this failure. r or 0. */
static int go_on(struct cp *cp, const char *path, int r, const struct error *why, struct error *e)
{
	if (r >= 0)
		return 0;
	if (why->code == ERROR_NOT_FOUND || why->code == ERROR_USAGE) {
		leave_out(cp, path, why->message);
		return 0;
	}
	*e = *why;
	error_prefix(e, "%s", path);
	return r;
}

static char *join(const char *path, const char *name)
{
	return str_printf("%s%s%s", path, str_ends_with(path, "/") ? "" : "/", name);
}

/* --- from the sandbox --- */

static mode_t mode_of(const struct cp *cp, const json_t *entry)
{
	return (mode_t)json_integer_value(json_object_get(entry, "mode")) & 0777 & ~cp->umask;
}

/* Into a device or pipe. */
static int write_into(struct cp *cp, const char *path, int dirfd, const char *name, struct error *e)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? error_set_errno(e, ERROR_HOST, errno, "cannot write %s", name)
		      : remote_files_get(&cp->files, path, fd, e);
}

int cp_file_down(struct cp *cp, const char *path, const json_t *entry, int dirfd, const char *name,
	struct error *e)
{
	struct stat st;
	int fd, r;

	if (fstatat(dirfd, name, &st, 0) == 0 && !S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode)
			       ? error_set(e, ERROR_EXISTS, EISDIR, "%s is a directory", name)
			       : write_into(cp, path, dirfd, name, e);
	fd = partial_open(dirfd, name, e);
	if (fd < 0)
		return fd;
	r = remote_files_get(&cp->files, path, fd, e);
	if (r == 0)
		return partial_commit(mode_of(cp, entry), e);
	partial_drop();
	return r;
}

/* The guest says the names: nothing may lead out of the directory. */
static bool is_plain_name(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int make_dir(int dirfd, const char *name, struct error *e)
{
	int fd;

	if (mkdirat(dirfd, name, 0700) < 0 && errno != EEXIST)
		return error_set_errno(e, errno == ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, errno,
			"cannot make the directory %s", name);
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? error_set_errno(e, ERROR_HOST, errno, "directory %s", name) : fd;
}

/* A link that leads to a directory above would be followed for ever. */
static bool leads_up(const char *path, const json_t *entry)
{
	const char *target = remote_entry_text(entry, "symlinkTarget");
	size_t n = strlen(target);

	return n && strncmp(path, target, n) == 0 && (path[n] == '/' || path[n] == '\0' || n == 1);
}

static int tree_down(struct cp *cp, const char *path, int dirfd, unsigned depth, struct error *e);

static int dir_down(struct cp *cp, const char *path, const json_t *entry, int dirfd,
	const char *name, unsigned depth, struct error *e)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (depth == CP_DEPTH_MAX || leads_up(path, entry)) {
		leave_out(cp, path,
			depth == CP_DEPTH_MAX ? "too deep" : "it leads to a directory above");
		return 0;
	}
	fd = make_dir(dirfd, name, e);
	r = fd < 0 ? fd : tree_down(cp, path, fd, depth + 1, e);
	if (r == 0)
		(void)fchmod(fd, mode_of(cp, entry)); /* it is ours, or stays as it is */
	return r;
}

static int entry_down(struct cp *cp, const char *parent, const json_t *entry, int dirfd,
	unsigned depth, struct error *e)
{
	const char *name = remote_entry_text(entry, "name");
	_cleanup_free_ char *path = join(parent, name);
	struct error why = {0};
	int r = 0;

	if (!path)
		return out_of_memory(e);
	if (!is_plain_name(name)) {
		leave_out(cp, path, "no name of a file");
		return 0;
	}
	switch (remote_entry_kind(entry)) {
	case REMOTE_FILE:
		r = cp_file_down(cp, path, entry, dirfd, name, &why);
		break;
	case REMOTE_DIRECTORY:
		return dir_down(cp, path, entry, dirfd, name, depth, e);
	default:
		leave_out(cp, path, "neither a file nor a directory");
	}
	return go_on(cp, path, r, &why, e);
}

static int tree_down(struct cp *cp, const char *path, int dirfd, unsigned depth, struct error *e)
{
	json_t *entries = NULL, *one;
	struct error why = {0};
	size_t i;
	int r = go_on(cp, path, remote_files_list(&cp->files, path, &entries, &why), &why, e);

	json_array_foreach(entries, i, one)
	{
		if (r == 0)
			r = entry_down(cp, path, one, dirfd, depth, e);
	}
	json_decref(entries);
	return r;
}

int cp_tree_down(struct cp *cp, const char *path, int dirfd, struct error *e)
{
	return tree_down(cp, path, dirfd, 0, e);
}

/* --- to the sandbox --- */

/* The directories above, to tell a link that leads to one of them. */
struct above {
	const struct above *up;
	dev_t dev;
	ino_t ino;
	unsigned depth;
};

static bool is_above(const struct above *a, const struct stat *st)
{
	for (; a; a = a->up)
		if (a->dev == st->st_dev && a->ino == st->st_ino)
			return true;
	return false;
}

int cp_file_up(struct cp *cp, int fd, const char *path, struct error *e)
{
	struct stat st;
	bool sized;

	if (fstat(fd, &st) < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "fstat");
	/* files of /proc claim to be empty */
	sized = S_ISREG(st.st_mode) && st.st_size > 0;
	return remote_files_put(&cp->files, path, fd, sized ? st.st_size : CLIENT_CHUNKED,
		S_ISREG(st.st_mode) ? st.st_mode & 0777 : 0644, e);
}

static int tree_up(
	struct cp *cp, int dirfd, const char *path, const struct above *up, struct error *e);

static int open_up(int dirfd, const char *name, struct stat *st, struct error *e)
{
	int fd = openat(dirfd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return error_set_errno(e, ERROR_USAGE, errno, "cannot read");
	if (fstat(fd, st) == 0 && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)))
		return fd;
	(void)close(fd); /* not read from */
	return error_set(e, ERROR_USAGE, EINVAL, "neither a file nor a directory");
}

static int dir_up(struct cp *cp, int fd, const char *path, const struct stat *st,
	const struct above *up, struct error *e)
{
	int r;

	if (is_above(up, st) || up->depth == CP_DEPTH_MAX)
		return error_set(
			e, ERROR_USAGE, ELOOP, "it leads to a directory above, or is too deep");
	r = remote_files_mkdir(&cp->files, path, e);
	return r < 0 ? r : tree_up(cp, fd, path, up, e);
}

static int entry_up(struct cp *cp, int dirfd, const char *parent, const char *name,
	const struct above *up, struct error *e)
{
	_cleanup_free_ char *path = join(parent, name);
	struct error why = {0};
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r;

	if (!path)
		return out_of_memory(e);
	fd = r = open_up(dirfd, name, &st, &why);
	if (fd >= 0)
		r = S_ISDIR(st.st_mode) ? dir_up(cp, fd, path, &st, up, &why)
					: cp_file_up(cp, fd, path, &why);
	return go_on(cp, path, r, &why, e);
}

static int tree_up(
	struct cp *cp, int dirfd, const char *path, const struct above *up, struct error *e)
{
	struct above here = {.up = up, .depth = up ? up->depth + 1 : 0};
	struct dirent *d;
	struct stat st;
	DIR *dir = fstat(dirfd, &st) == 0 ? fdopendir(dup(dirfd)) : NULL;
	int r = 0;

	if (!dir)
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot read the directory");
	here.dev = st.st_dev;
	here.ino = st.st_ino;
	while (r == 0 && (d = readdir(dir)))
		if (is_plain_name(d->d_name))
			r = entry_up(cp, dirfd, path, d->d_name, &here, e);
	(void)closedir(dir); /* read only */
	return r;
}

int cp_tree_up(struct cp *cp, int dirfd, const char *path, struct error *e)
{
	return tree_up(cp, dirfd, path, NULL, e);
}
