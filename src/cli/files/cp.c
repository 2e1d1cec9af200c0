/* `mayfly cp`: copies files and directories to and from a sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/files/cp_tree.h"
#include "cli/progress.h"

enum { SHOW_AFTER_S = 2, LEFT_OUT_STATUS = 1 };

struct cp_options {
	struct cli_common common;
	bool recursive;
	const char *user;
};

static const struct option_spec options[] = {
	{"recursive", 'r', OPTION_FLAG, NULL, "copy directories with what is in them",
		offsetof(struct cp_options, recursive), 0, 0, false},
	{"user", 'u', OPTION_STRING, "NAME", "user to read and write as (default: the template's)",
		offsetof(struct cp_options, user), 0, 0, false},
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

/* ID:PATH, a path of this host, or - */
struct side {
	char *id; /* owned, NULL: this host */
	const char *path;
	bool stream;
};

struct copying {
	const struct cp_options *o;
	struct side from, to;
	struct remote remote;
	struct cp cp;
	struct progress_view view;
	uint64_t begin_ns, bytes, total; /* total 0: not known */
};

/* --- the command line --- */

/* As docker reads it: a colon with no slash before it ends an id. */
static int parse_side(const char *text, struct side *ret, struct error *e)
{
	const char *colon = strchr(text, ':'), *slash = strchr(text, '/');

	ret->path = text;
	ret->stream = strcmp(text, "-") == 0;
	if (!*text)
		return error_set(e, ERROR_USAGE, EINVAL, "an argument is empty");
	if (!colon || colon == text || *text == '.' || (slash && slash < colon))
		return 0;
	ret->id = strndup(text, (size_t)(colon - text));
	ret->path = colon + 1;
	return ret->id ? 0 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

static int parse(struct copying *c, int argc, char **argv, struct error *e)
{
	int r;

	if (argc != 2)
		return error_set(e, ERROR_USAGE, EINVAL,
			"give what to copy and where to: mayfly cp SRC DST");
	r = parse_side(argv[0], &c->from, e);
	if (r == 0)
		r = parse_side(argv[1], &c->to, e);
	if (r == 0 && !c->from.id == !c->to.id)
		r = error_set(e, ERROR_USAGE, EINVAL,
			c->from.id ? "both are in sandboxes: copy through a pipe, mayfly cp A:X - "
				     "| mayfly cp - B:X"
				   : "neither is in a sandbox: one must be ID:PATH");
	return r;
}

/* --- progress --- */

static int on_bytes(void *arg, size_t bytes)
{
	struct copying *c = arg;
	char text[16], line[64];
	uint64_t ns = clock_monotonic_ns() - c->begin_ns;

	c->bytes += bytes;
	if (ns < SHOW_AFTER_S * NS_PER_S)
		return 0;
	(void)snprintf(line, sizeof(line), "%s in %llu s", str_format_bytes(c->bytes, text),
		(unsigned long long)(ns / NS_PER_S));
	return c->view.progress.fn(c->view.progress.opaque, "copying",
		c->total ? (int)(c->bytes * 100 / c->total) : -1, line);
}

/* --- names --- */

/* The last component; NULL when it stands for the directory itself ("dir/.", "..", "/"). */
static char *base_name(const char *path)
{
	size_t n = strlen(path), start;

	while (n && path[n - 1] == '/')
		n--;
	for (start = n; start && path[start - 1] != '/';)
		start--;
	if (start == n || (n - start == 1 && path[start] == '.') ||
		(n - start == 2 && memcmp(path + start, "..", 2) == 0))
		return NULL;
	return strndup(path + start, n - start);
}

/* Where something named as the last component of `from` goes: into `to` when that is a directory.
 * Malloc'ed. */
static char *target_of(const char *from, const char *to, bool into)
{
	_cleanup_free_ char *name = into ? base_name(from) : NULL;

	if (!name)
		return strdup(*to ? to : ".");
	return str_printf("%s%s%s", to, *to && !str_ends_with(to, "/") ? "/" : "", name);
}

static int is_directory(const char *path, struct error *e)
{
	return error_set(e, ERROR_USAGE, EISDIR, "%s is a directory: give --recursive", path);
}

/* --- from the sandbox --- */

static int download_dir(struct copying *c, const char *to, const json_t *entry, struct error *e)
{
	_cleanup_close_ int fd = -1;

	if (mkdir(to, 0777) < 0 && errno != EEXIST)
		return error_set_errno(e, ERROR_HOST, errno, "cannot make the directory %s", to);
	fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(e, ERROR_HOST, errno, "directory %s", to);
	return cp_tree_down(&c->cp, remote_entry_text(entry, "path"), fd, e);
}

/* A link on this side is written through, as cp does. */
static int download_file(struct copying *c, const char *to, const json_t *entry, struct error *e)
{
	_cleanup_free_ char *real = realpath(to, NULL);

	c->total = remote_entry_size(entry);
	return cp_file_down(&c->cp, c->from.path, entry, AT_FDCWD, real ? real : to, e);
}

static int download(struct copying *c, struct error *e)
{
	const char *to = c->to.path;
	_cleanup_free_ char *target = NULL;
	json_t *entry = NULL;
	struct stat st;
	bool into;
	int r;

	if (c->to.stream)
		return remote_files_get(&c->cp.files, c->from.path, STDOUT_FILENO, e);
	into = stat(to, &st) == 0 && S_ISDIR(st.st_mode);
	r = remote_files_stat(&c->cp.files, c->from.path, &entry, e);
	if (r < 0)
		return r;
	target = target_of(*c->from.path ? c->from.path : ".", to, into);
	if (!target)
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	else if (remote_entry_kind(entry) == REMOTE_FILE)
		r = str_ends_with(to, "/") && !into
			    ? error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no directory %s", to)
			    : download_file(c, target, entry, e);
	else if (remote_entry_kind(entry) == REMOTE_OTHER)
		r = error_set(e, ERROR_USAGE, EINVAL, "%s is neither a file nor a directory",
			c->from.path);
	else
		r = c->o->recursive ? download_dir(c, target, entry, e)
				    : is_directory(c->from.path, e);
	json_decref(entry);
	return r;
}

/* --- to the sandbox --- */

/* 1: a directory of that name is there. */
static int is_remote_dir(struct copying *c, const char *path, struct error *e)
{
	struct error why = {0};
	json_t *entry = NULL;
	int r = remote_files_stat(&c->cp.files, path, &entry, &why);

	if (r == 0)
		r = remote_entry_kind(entry) == REMOTE_DIRECTORY;
	else if (why.code == ERROR_NOT_FOUND)
		r = 0;
	else
		*e = why;
	json_decref(entry);
	return r;
}

static int upload_open(struct copying *c, int fd, const char *to, struct error *e)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "%s", c->from.path);
	if (!S_ISDIR(st.st_mode)) {
		c->total = (uint64_t)st.st_size;
		return cp_file_up(&c->cp, fd, to, e);
	}
	if (!c->o->recursive)
		return is_directory(c->from.path, e);
	r = remote_files_mkdir(&c->cp.files, to, e);
	return r < 0 ? r : cp_tree_up(&c->cp, fd, to, e);
}

static int upload(struct copying *c, struct error *e)
{
	const char *to = c->to.path;
	_cleanup_free_ char *target = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	if (c->from.stream)
		return cp_file_up(&c->cp, STDIN_FILENO, to, e);
	fd = open(c->from.path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return error_set_errno(e, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_HOST, errno,
			"cannot read %s", c->from.path);
	r = !*to || str_ends_with(to, "/") ? 1 : is_remote_dir(c, to, e);
	if (r < 0)
		return r;
	target = target_of(c->from.path, to, r);
	return target ? upload_open(c, fd, target, e)
		      : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

static int copy(struct copying *c, struct error *e)
{
	int r = remote_open(c->from.id ? c->from.id : c->to.id, &c->remote, e);

	if (r < 0)
		return r;
	c->remote.user = c->o->user;
	c->cp.files = (struct remote_files){.remote = &c->remote, .progress = on_bytes, .arg = c};
	c->cp.umask = umask(0);
	(void)umask(c->cp.umask); /* it can only be read by setting it */
	progress_view_open(&c->view, true);
	c->begin_ns = clock_monotonic_ns();
	r = c->from.id ? download(c, e) : upload(c, e);
	progress_view_close(&c->view);
	remote_files_close(&c->cp.files);
	return r;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	struct copying c = {.o = values, .remote = REMOTE_INIT};
	int r = parse(&c, argc, argv, e);

	if (r == 0)
		r = copy(&c, e);
	remote_close(&c.remote);
	free(c.from.id);
	free(c.to.id);
	if (r < 0)
		return r;
	return c.cp.left_out ? LEFT_OUT_STATUS : 0;
}

const struct cli_verb cli_verb_cp = {
	.name = "cp",
	.arguments = "ID:PATH|PATH|- ID:PATH|PATH|-",
	.summary = "Copy files to and from a sandbox of the daemon",
	.description = "One of the two must be ID:PATH; a relative PATH begins in the user's home. "
		       "- is standard input\n"
		       "or output. If DST is an existing directory, the copy gets SRC's name in "
		       "it. SRC/. stands for\n"
		       "the content of SRC. Follows links, and keeps permissions as far as the "
		       "umask allows. On this\n"
		       "host a file gets its name only when it is complete. Exit status 1 means "
		       "that some things in a\n"
		       "directory were left out; they are named on standard error.",
	.options = options,
	.values_bytes = sizeof(struct cp_options),
	.run = run,
};
