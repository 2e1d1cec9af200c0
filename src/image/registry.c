#include "image/registry.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "io/child.h"

#define NPM_REMEDY                                                                                 \
	"give npm a registry that this host reaches (npm config set registry URL), or build from " \
	"a root file system of your own (--from-tar)"
#define MAVEN_REMEDY                                                                               \
	"give Maven a repository that this host reaches (a mirror in ~/.m2/settings.xml), or "     \
	"build from a root file system of your own (--from-tar)"

enum { PIECE = 64 << 10 };

static int no_memory(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

/* --- the clients' words --- */

static size_t line_length(const char *line)
{
	return strcspn(line, "\r\n");
}

/* Finds the most telling reason in a client's output. */
static const char *find_reason(const char *output)
{
	static const char *const marks[] = {"request to ", "404 Not Found", "No matching version",
		"Could not transfer", "Could not find", "Could not resolve", "Plugin ", "Unable to",
		"Cannot access", "npm error ", "npm ERR! ", "[ERROR] "};

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		const char *p = strstr(output, marks[i]);

		if (p)
			return p;
	}
	return output;
}

void registry_reason(const char *output, char out[REGISTRY_REASON_MAX])
{
	const char *reason = find_reason(output);
	const char *help = strstr(reason, " -> [Help");
	size_t n = line_length(reason);

	if (help && (size_t)(help - reason) < n)
		n = (size_t)(help - reason);
	if (n >= REGISTRY_REASON_MAX)
		n = REGISTRY_REASON_MAX - 1;
	memcpy(out, reason, n);
	out[n] = '\0';
}

/* Collects the client's errors from stderr (npm) and stdout (Maven). */
struct client {
	struct buf output; /* both, up to its maximum */
	struct buf command;
	const struct progress *p;
	const char *stage;
};

static int on_line(void *opaque, const char *line)
{
	struct client *c = opaque;

	if (buf_printf(&c->output, "%s\n", line) < 0)
		return 0; /* the lines so far explain the failure */
	return progress_report(c->p, c->stage, PROGRESS_NO_PERCENT, NULL);
}

/* Runs a client. On failure the error shows its command, as a person would type it. */
static int run_client(
	struct client *c, const struct child_options *o, const char *remedy, struct error *e)
{
	struct error why = {0};
	char reason[REGISTRY_REASON_MAX];
	int r;

	if (!child_program_exists(o->argv[0]))
		return child_run(o, NULL, e); /* fails, and says what to install */
	r = child_run(o, &c->output, &why);
	if (r == 0)
		return 0;
	if (why.code != ERROR_HOST || buf_add_u8(&c->output, 0) < 0) {
		if (e && e->code == ERROR_NONE)
			*e = why;
		return r;
	}
	registry_reason((const char *)buf_head(&c->output), reason);
	return error_set(e, ERROR_HOST, EIO, "`%.100s` failed (%s): %s",
		(const char *)buf_head(&c->command), reason, remedy);
}

static void client_done(struct client *c)
{
	buf_done(&c->output);
	buf_done(&c->command);
}

/* --- npm --- */

static int name_npm_command(const struct recipe *r, struct buf *b)
{
	int v = buf_add_str(b, "npm install");

	for (size_t i = 0; i < r->npm.count && v == 0; i++)
		v = buf_printf(b, " %s", r->npm.items[i]);
	return v == 0 ? buf_add_u8(b, 0) : v;
}

/* Removes npm's notes about where packages came from. */
static int remove_notes(const char *tmp)
{
	_cleanup_free_ char *lock = str_printf("%s/npm/node_modules/.package-lock.json", tmp);
	_cleanup_free_ char *bin = str_printf("%s/npm/node_modules/.bin", tmp);

	if (!lock || !bin)
		return -ENOMEM;
	if (unlink(lock) < 0 && errno != ENOENT)
		return -errno;
	return file_remove_tree(AT_FDCWD, bin);
}

static int fetch_npm(
	const struct recipe *r, const char *tmp, const struct progress *p, struct error *e)
{
	_cleanup_(client_done) struct client c = {.output = BUF_INIT(CHILD_OUTPUT_MAX),
		.command = BUF_INIT(RECIPE_BYTES_MAX),
		.p = p,
		.stage = "fetch npm packages"};
	_cleanup_free_ char *prefix = str_printf("--prefix=%s/npm", tmp);
	const char *argv[RECIPE_LIST_MAX + 9] = {"npm", "install", "--no-audit", "--no-fund",
		"--no-save", "--ignore-scripts", "--loglevel=error", prefix};
	struct child_options o = {.argv = argv,
		.cwd = tmp,
		.remedy = "install npm (Debian packages: nodejs, npm)",
		.timeout_ns = REGISTRY_TIMEOUT_S * NS_PER_S,
		.on_line = on_line,
		.opaque = &c};
	int v = prefix ? name_npm_command(r, &c.command) : -ENOMEM;

	if (v < 0)
		return no_memory(e);
	for (size_t i = 0; i < r->npm.count; i++)
		argv[8 + i] = r->npm.items[i];
	v = run_client(&c, &o, NPM_REMEDY, e);
	if (v < 0)
		return v;
	v = remove_notes(tmp);
	return v < 0 ? error_set_errno(e, ERROR_INTERNAL, -v, "npm's notes") : 0;
}

/* --- archives --- */

static void free_archive(struct archive **a)
{
	(void)archive_read_free(*a); /* read-only */
}

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

static bool leads_out(const char *path)
{
	for (const char *p = path; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
		if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0'))
			return true;
	return *path == '/';
}

/* Opens a new file; makes the directories above it. */
static int make_file(const char *to, const char *name)
{
	_cleanup_free_ char *path = str_printf("%s/%s", to, name);
	char *slash = path ? strrchr(path, '/') : NULL;
	int fd, r;

	if (!path)
		return -ENOMEM;
	*slash = '\0';
	r = file_mkdir_p(path, 0755);
	*slash = '/';
	if (r < 0)
		return r;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return fd < 0 ? -errno : fd;
}

struct unpacking {
	struct archive *archive;
	const char *folder, *to;
	size_t files;
	uint64_t bytes;
	char data[PIECE];
};

static int copy_content(struct unpacking *u, struct archive_entry *entry, int fd)
{
	struct timespec times[2] = {
		{.tv_sec = archive_entry_mtime(entry)}, {.tv_sec = archive_entry_mtime(entry)}};
	la_ssize_t n;
	int r;

	while ((n = archive_read_data(u->archive, u->data, sizeof(u->data))) > 0) {
		u->bytes += (uint64_t)n;
		r = u->bytes > REGISTRY_BYTES_MAX ? -EFBIG : fd_write_full(fd, u->data, (size_t)n);
		if (r < 0)
			return r;
	}
	if (n < 0)
		return -EBADMSG;
	return futimens(fd, times) < 0 ? -errno : 0;
}

static int take_entry(struct unpacking *u, struct archive_entry *entry)
{
	const char *path = archive_entry_pathname(entry), *name;
	_cleanup_close_ int fd = -1;

	name = path ? path_below(path, u->folder) : NULL;
	if (!name || archive_entry_filetype(entry) != AE_IFREG)
		return 0;
	if (leads_out(name))
		return -EBADMSG;
	if (++u->files > REGISTRY_FILES_MAX)
		return -EFBIG;
	fd = make_file(u->to, name);
	return fd < 0 ? fd : copy_content(u, entry, fd);
}

static int unpack_entries(struct unpacking *u, const char *archive)
{
	struct archive_entry *entry;
	int r;

	(void)archive_read_support_format_zip(u->archive); /* opening the archive reports what is
							    * missing */
	(void)archive_read_support_format_tar(u->archive);
	(void)archive_read_support_filter_gzip(u->archive);
	(void)archive_read_support_filter_xz(u->archive);
	if (archive_read_open_filename(u->archive, archive, PIECE) != ARCHIVE_OK)
		return -EBADMSG;
	while ((r = archive_read_next_header(u->archive, &entry)) == ARCHIVE_OK) {
		r = take_entry(u, entry);
		if (r < 0)
			return r;
	}
	if (r != ARCHIVE_EOF)
		return -EBADMSG;
	return u->files ? 0 : -ENOENT;
}

int registry_unpack(const char *archive, const char *folder, const char *to, struct error *e)
{
	_cleanup_(free_archive) struct archive *a = archive_read_new();
	_cleanup_free_ struct unpacking *u = calloc(1, sizeof(*u));
	int r;

	if (!a || !u)
		return no_memory(e);
	*u = (struct unpacking){.archive = a, .folder = folder, .to = to};
	r = file_mkdir_p(to, 0755);
	if (r == 0)
		r = unpack_entries(u, archive);
	if (r == -ENOSPC)
		return error_set(e, ERROR_NO_SPACE, ENOSPC, "no space left to unpack %s", archive);
	if (r == -ENOENT)
		return error_set(
			e, ERROR_BAD_IMAGE, ENOENT, "%s has nothing below %s", archive, folder);
	if (r == -EFBIG)
		return error_set(e, ERROR_BAD_IMAGE, EFBIG,
			"%s is too large: at most %d files "
			"of %d MiB in all",
			archive, REGISTRY_FILES_MAX, REGISTRY_BYTES_MAX >> 20);
	if (r == -EBADMSG || r == -EEXIST)
		return error_set(e, ERROR_BAD_IMAGE, -r, "%s is damaged", archive);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "cannot unpack %s", archive) : 0;
}

/* --- Maven --- */

/* The only file of a directory; malloc'ed, NULL when there is none. */
static char *only_file(const char *directory)
{
	DIR *d = opendir(directory);
	struct dirent *de;
	char *path = NULL;

	while (d && !path && (de = readdir(d)))
		if (*de->d_name != '.')
			path = str_printf("%s/%s", directory, de->d_name);
	if (d)
		(void)closedir(d); /* read-only */
	return path;
}

static int run_maven(
	const char *artifact, const char *to, const struct progress *p, struct error *e)
{
	_cleanup_(client_done) struct client c = {.output = BUF_INIT(CHILD_OUTPUT_MAX),
		.command = BUF_INIT(RECIPE_BYTES_MAX),
		.p = p,
		.stage = "fetch Maven artifacts"};
	_cleanup_free_ char *what = str_printf("-Dartifact=%s", artifact);
	_cleanup_free_ char *where = str_printf("-DoutputDirectory=%s", to);
	const char *argv[] = {"mvn", "-B", "-q", "-U", "-Dstyle.color=never", "dependency:copy",
		what, where, NULL};
	struct child_options o = {.argv = argv,
		.cwd = to,
		.remedy = "install Maven (Debian package: maven)",
		.timeout_ns = REGISTRY_TIMEOUT_S * NS_PER_S,
		.on_line = on_line,
		.opaque = &c};

	if (!what || !where || buf_printf(&c.command, "mvn dependency:copy %s", what) < 0 ||
		buf_add_u8(&c.command, 0) < 0)
		return no_memory(e);
	return run_client(&c, &o, MAVEN_REMEDY, e);
}

static int fetch_artifact(const char *artifact, const char *folder, const char *directory,
	const struct progress *p, struct error *e)
{
	_cleanup_free_ char *to = str_printf("%s/file", directory), *archive = NULL;
	_cleanup_free_ char *tree = str_printf("%s/tree", directory);
	int r = to && tree ? file_mkdir_p(to, 0755) : -ENOMEM;

	if (r < 0)
		return error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			"cannot make %s", directory);
	r = run_maven(artifact, to, p, e);
	if (r < 0)
		return r;
	archive = only_file(to);
	if (!archive)
		return error_set(e, ERROR_HOST, ENOENT, "mvn left no file of %s", artifact);
	return registry_unpack(archive, folder, tree, e);
}

static int fetch_maven(
	const struct recipe *r, const char *tmp, const struct progress *p, struct error *e)
{
	int v = 0;

	for (size_t i = 0; i < r->maven_count && v == 0; i++) {
		_cleanup_free_ char *directory = str_printf("%s/maven/%zu", tmp, i);

		v = directory ? fetch_artifact(
					r->maven[i].artifact, r->maven[i].folder, directory, p, e)
			      : no_memory(e);
	}
	return v;
}

static int begin(const struct progress *p, const char *stage, struct error *e)
{
	int r = progress_report(p, stage, PROGRESS_NO_PERCENT, NULL);

	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "the build was ended") : 0;
}

int registry_fetch(
	const struct recipe *r, const char *tmp, const struct progress *p, struct error *e)
{
	int v = 0;

	if (r->npm.count) {
		v = begin(p, "fetch npm packages", e);
		if (v == 0)
			v = fetch_npm(r, tmp, p, e);
	}
	if (v == 0 && r->maven_count) {
		v = begin(p, "fetch Maven artifacts", e);
		if (v == 0)
			v = fetch_maven(r, tmp, p, e);
	}
	return v;
}
