#include "image/registry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "image/tree_files.h"
#include "io/child.h"

#define NPM_REMEDY                                                                                 \
	"give npm a registry that this host reaches (npm config set registry URL), or build from " \
	"a root file system of your own (--from-tar)"
#define MAVEN_REMEDY                                                                               \
	"give Maven a repository that this host reaches (a mirror in ~/.m2/settings.xml), or "     \
	"build from a root file system of your own (--from-tar)"

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
	if (why.code != ERROR_HOST || strstr(why.message, "no jail") ||
		buf_add_u8(&c->output, 0) < 0) {
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

/* Removes npm's notes about where packages came from, and its cache. It may have left anything in
 * place of its directories. */
static int remove_notes(const char *directory)
{
	_cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int modules =
		openat(fd, "node_modules", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (modules < 0)
		return -errno;
	if (unlinkat(modules, ".package-lock.json", 0) < 0 && errno != ENOENT)
		return -errno;
	return file_remove_own_tree(modules, ".bin") < 0 ? -EIO : file_remove_own_tree(fd, "cache");
}

static int make_directory(const char *path, struct error *e)
{
	int r = file_mkdir_p(path, 0755);

	return r < 0 ? error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			       "cannot make %s", path)
		     : 0;
}

/* The user's settings, with the addresses and passwords of registries. */
static char *home_file(const char *name)
{
	const char *home = getenv("HOME");

	return str_printf("%s/%s", home && *home == '/' ? home : "/root", name);
}

static int run_npm(struct client *c, const struct recipe *r, const char *directory, struct error *e)
{
	_cleanup_free_ char *prefix = str_printf("--prefix=%s", directory);
	_cleanup_free_ char *cache = str_printf("--cache=%s/cache", directory);
	_cleanup_free_ char *settings = home_file(".npmrc");
	static const char *const variables[] = {"npm_config_", "NPM_", "NODE_EXTRA_CA_CERTS", NULL};
	const char *const copy[] = {settings, "/etc/npmrc", NULL}, *const write[] = {
									   directory, NULL};
	const struct io_workshop workshop = {.user = "nobody",
		.network = true,
		.copy = copy,
		.write = write,
		.variables = variables};
	const char *argv[RECIPE_LIST_MAX + 10] = {"npm", "install", "--no-audit", "--no-fund",
		"--no-save", "--ignore-scripts", "--loglevel=error", prefix, cache};
	const struct child_options o = {.argv = argv,
		.cwd = directory,
		.remedy = "install npm (Debian packages: nodejs, npm)",
		.timeout_ns = REGISTRY_TIMEOUT_S * NS_PER_S,
		.on_line = on_line,
		.opaque = c,
		.workshop = &workshop};

	if (!prefix || !cache || !settings || name_npm_command(r, &c->command) < 0)
		return no_memory(e);
	for (size_t i = 0; i < r->npm.count; i++)
		argv[9 + i] = r->npm.items[i];
	return run_client(c, &o, NPM_REMEDY, e);
}

static int fetch_npm(
	const struct recipe *r, const char *tmp, const struct progress *p, struct error *e)
{
	_cleanup_(client_done) struct client c = {.output = BUF_INIT(CHILD_OUTPUT_MAX),
		.command = BUF_INIT(RECIPE_BYTES_MAX),
		.p = p,
		.stage = "fetch npm packages"};
	_cleanup_free_ char *directory = str_printf("%s/npm", tmp);
	int v = directory ? make_directory(directory, e) : no_memory(e);

	if (v == 0)
		v = run_npm(&c, r, directory, e);
	if (v < 0)
		return v;
	v = remove_notes(directory);
	return v < 0 ? error_set_errno(e, ERROR_HOST, -v, "npm left no directory of packages") : 0;
}

/* --- archives --- */

int registry_unpack(
	unpack_fn fn, const char *archive, const char *folder, const char *to, struct error *e)
{
	_cleanup_close_ int fd = -1;
	struct tree_files files = {.files_max = PARSE_FILES_MAX, .bytes_max = PARSE_BYTES_MAX};
	int r = file_mkdir_p(to, 0755);

	fd = r < 0 ? r : open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(e, ERROR_HOST, r < 0 ? -r : errno, "cannot make %s", to);
	files.fd = fd;
	tree_files_init(&files);
	return unpack_path(fn, archive,
		(struct parse_options){.job = PARSE_ARCHIVE, .folder = folder}, &files.sink, e);
}

/* --- Maven --- */

static bool is_regular(DIR *d, const char *name)
{
	struct stat st;

	return fstatat(dirfd(d), name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* The only file of a directory, and no link to another; malloc'ed, NULL when there is none. */
static char *only_file(const char *directory)
{
	DIR *d = opendir(directory);
	struct dirent *de;
	char *path = NULL;

	while (d && !path && (de = readdir(d)))
		if (*de->d_name != '.' && is_regular(d, de->d_name))
			path = str_printf("%s/%s", directory, de->d_name);
	if (d)
		(void)closedir(d); /* read-only */
	return path;
}

/* repository: where it keeps its plugins and what they need, for all artifacts of a recipe. */
static int run_maven(struct client *c, const char *artifact, const char *to, const char *repository,
	struct error *e)
{
	static const char *const variables[] = {"MAVEN_", "JAVA_HOME", "M2_HOME", NULL};
	_cleanup_free_ char *what = str_printf("-Dartifact=%s", artifact);
	_cleanup_free_ char *where = str_printf("-DoutputDirectory=%s", to);
	_cleanup_free_ char *local = str_printf("-Dmaven.repo.local=%s", repository);
	_cleanup_free_ char *settings = home_file(".m2/settings.xml");
	_cleanup_free_ char *security = home_file(".m2/settings-security.xml");
	const char *const copy[] = {settings, security, "/etc/maven", NULL};
	const char *const write[] = {to, repository, NULL};
	static const char *const read[] = {
		"/etc/java-17-openjdk", "/etc/java-21-openjdk", "/etc/java-11-openjdk", NULL};
	const struct io_workshop workshop = {.user = "nobody",
		.network = true,
		.read = read,
		.copy = copy,
		.write = write,
		.variables = variables};
	const char *argv[] = {"mvn", "-B", "-q", "-U", "-Dstyle.color=never", local,
		"dependency:copy", what, where, NULL};
	const struct child_options o = {.argv = argv,
		.cwd = to,
		.remedy = "install Maven (Debian package: maven)",
		.timeout_ns = REGISTRY_TIMEOUT_S * NS_PER_S,
		.on_line = on_line,
		.opaque = c,
		.workshop = &workshop};

	if (!what || !where || !local || !settings || !security ||
		buf_printf(&c->command, "mvn dependency:copy %s", what) < 0 ||
		buf_add_u8(&c->command, 0) < 0)
		return no_memory(e);
	return run_client(c, &o, MAVEN_REMEDY, e);
}

static int fetch_artifact(const struct recipe_artifact *a, const char *directory,
	const char *repository, const struct progress *p, struct error *e)
{
	_cleanup_(client_done) struct client c = {.output = BUF_INIT(CHILD_OUTPUT_MAX),
		.command = BUF_INIT(RECIPE_BYTES_MAX),
		.p = p,
		.stage = "fetch Maven artifacts"};
	_cleanup_free_ char *to = str_printf("%s/file", directory), *archive = NULL;
	_cleanup_free_ char *tree = str_printf("%s/tree", directory);
	int r = to && tree ? make_directory(to, e) : no_memory(e);

	if (r == 0)
		r = run_maven(&c, a->artifact, to, repository, e);
	if (r < 0)
		return r;
	archive = only_file(to);
	if (!archive)
		return error_set(e, ERROR_HOST, ENOENT, "mvn left no file of %s", a->artifact);
	return registry_unpack(unpack, archive, a->folder, tree, e);
}

static int fetch_maven(
	const struct recipe *r, const char *tmp, const struct progress *p, struct error *e)
{
	_cleanup_free_ char *repository = str_printf("%s/repository", tmp);
	int v = repository ? make_directory(repository, e) : no_memory(e);

	for (size_t i = 0; i < r->maven_count && v == 0; i++) {
		_cleanup_free_ char *directory = str_printf("%s/maven/%zu", tmp, i);

		v = directory ? fetch_artifact(&r->maven[i], directory, repository, p, e)
			      : no_memory(e);
	}
	if (v == 0 && file_remove_own_tree(AT_FDCWD, repository) < 0)
		v = error_set(e, ERROR_INTERNAL, EIO, "cannot remove %s", repository);
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
