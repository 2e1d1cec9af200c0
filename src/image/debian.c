#include "image/debian.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "image/registry.h"
#include "image/unpack.h"
#include "io/child.h"
#include "io/program.h"
#include "io/subordinate.h"

#define KEYRING "/usr/share/keyrings/debian-archive-keyring."

#define ARCHIVE_REMEDY                                                                             \
	": give apt an archive of Debian that this host reaches (its sources and proxy; try "      \
	"apt-get update), or build from a root file system of your own (--from-tar)"

enum { BUILD_TIMEOUT_S = 3600, SOURCES_MAX = 64 << 10, ARGUMENTS_MAX = 256, FILES_MAX = 56 };

static const char stage[] = "install packages";

/* True when the text contains `word` between blanks, alone or followed by '-'. */
static bool has_word(const char *p, const char *end, const char *word)
{
	size_t n = strlen(word);

	while (p < end) {
		size_t k;

		p += strspn(p, " \t\n");
		k = strcspn(p, " \t\n");
		if (k == 0)
			break;
		if (p + k <= end && k >= n && strncmp(p, word, n) == 0 && (k == n || p[n] == '-'))
			return true; /* "bookworm", "bookworm-updates" */
		p += k;
	}
	return false;
}

/* Finds the value of a field in a deb822 stanza, with its continuation lines. */
static bool find_field(const char *stanza, const char *end, const char *field, const char **ret,
	const char **ret_end)
{
	size_t n = strlen(field);

	for (const char *p = stanza; p < end;) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));

		eol = eol ? eol : end;
		if (strncasecmp(p, field, n) == 0 && p[n] == ':') {
			*ret = p + n + 1;
			while (eol + 1 < end && (eol[1] == ' ' || eol[1] == '\t')) {
				const char *next = memchr(eol + 1, '\n', (size_t)(end - eol - 1));

				eol = next ? next : end;
			}
			*ret_end = eol;
			return true;
		}
		p = eol + 1;
	}
	return false;
}

static bool stanza_fits(const char *p, const char *end, const char *suite)
{
	const char *v, *v_end;

	if (!find_field(p, end, "Types", &v, &v_end) || !has_word(v, v_end, "deb"))
		return false;
	if (!find_field(p, end, "Suites", &v, &v_end) || !has_word(v, v_end, suite))
		return false;
	if (find_field(p, end, "Enabled", &v, &v_end) && has_word(v, v_end, "no"))
		return false;
	/* The key distinguishes Debian's own archive from others that have a suite of the same
	 * name. */
	return find_field(p, end, "Signed-By", &v, &v_end) &&
	       memmem(v, (size_t)(v_end - v), KEYRING, sizeof(KEYRING) - 1);
}

static int filter_stanzas(const char *text, const char *suite, struct buf *out)
{
	int r = 0;

	while (*text && r == 0) {
		const char *end = strstr(text, "\n\n");

		end = end ? end + 1 : text + strlen(text);
		if (stanza_fits(text, end, suite)) {
			r = buf_add(out, text, (size_t)(end - text));
			if (r == 0)
				r = buf_add_str(out, "\n");
		}
		text = end + strspn(end, "\n");
	}
	return r;
}

/* Filters one-line sources: "deb [options] uri suite components". A line without signed-by is
 * Debian's if its host name says so. Other archives have their keys in the options. */
static int filter_lines(const char *text, const char *suite, struct buf *out)
{
	int r = 0;

	while (*text && r == 0) {
		const char *eol = strchrnul(text, '\n');
		const char *p = text;
		bool ours = strncmp(p, "deb ", 4) == 0 && has_word(p, eol, suite);
		const char *key = memmem(p, (size_t)(eol - p), "signed-by=", 10);

		if (ours && key)
			ours = memmem(key, (size_t)(eol - key), KEYRING, sizeof(KEYRING) - 1) !=
			       NULL;
		else if (ours)
			ours = memmem(p, (size_t)(eol - p), "/debian", 7) != NULL;
		if (ours)
			r = buf_add(out, p, (size_t)(eol - p));
		if (ours && r == 0)
			r = buf_add_str(out, "\n");
		text = *eol ? eol + 1 : eol;
	}
	return r;
}

int debian_filter_sources(const char *text, bool deb822, const char *suite, struct buf *out)
{
	return deb822 ? filter_stanzas(text, suite, out) : filter_lines(text, suite, out);
}

static int add_sources_of(const char *path, bool deb822, const char *suite, struct buf *out)
{
	_cleanup_free_ char *text = NULL;

	if (file_read(AT_FDCWD, path, SOURCES_MAX, &text, NULL) < 0)
		return 0; /* unreadable or missing: contributes nothing */
	return debian_filter_sources(text, deb822, suite, out);
}

/* A file for mmdebstrap must have one of the two formats, so each gets its own file. */
static int host_sources(bool deb822, const char *suite, struct buf *out)
{
	static const char dir[] = "/etc/apt/sources.list.d";
	const char *suffix = deb822 ? ".sources" : ".list";
	struct dirent **names = NULL;
	int n = scandir(dir, &names, NULL, alphasort), r = 0;

	if (!deb822)
		r = add_sources_of("/etc/apt/sources.list", false, suite, out);
	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *path = str_printf("%s/%s", dir, names[i]->d_name);

		if (path && r == 0 && str_ends_with(path, suffix))
			r = add_sources_of(path, deb822, suite, out);
		free(names[i]);
	}
	free(names);
	return r;
}

struct arguments {
	const char *v[ARGUMENTS_MAX]; /* NULL-terminated */
	char *owned[ARGUMENTS_MAX];
	size_t count;
	bool in_workshop;
	/* Files of the recipe, which the workshop shows, too. NULL-terminated, owned. */
	char *files[FILES_MAX + 1];
	size_t file_count;
	int r; /* the first error */
};

static void arguments_done(struct arguments *a)
{
	for (size_t i = 0; i < a->count; i++)
		free(a->owned[i]);
	for (size_t i = 0; i < a->file_count; i++)
		free(a->files[i]);
}

/* Takes a malloc'ed string; NULL means out of memory. */
static void add_argument(struct arguments *a, char *s)
{
	if (!s || a->count + 1 >= ARGUMENTS_MAX) {
		a->r = s ? -E2BIG : -ENOMEM;
		free(s);
		return;
	}
	a->owned[a->count] = s;
	a->v[a->count++] = s;
}

/* apt's settings and keys; some may be read by root only. */
static const char *const settings[] = {"/etc/apt", NULL};
static const char *const variables[] = {"APT_CONFIG", NULL};

static bool is_network_setting(const char *line)
{
	static const char *const prefixes[] = {
		"Acquire::http::", "Acquire::https::", "Acquire::Retries", "Acquire::Check-Date",
		"Acquire::Check-Valid-Until", "Acquire::ForceIPv", "Acquire::Max-FutureTime"};

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (str_starts_with(line, prefixes[i]))
			return strstr(line, " \"\";") == NULL; /* an empty setting means nothing */
	return false;
}

/* Passes on the settings that this host's apt needs to reach the archive: proxies, certificates,
 * clocks. */
static void add_apt_options(struct arguments *a)
{
	const char *argv[] = {"apt-config", "dump", NULL};
	static const struct io_workshop workshop = {
		.user = "nobody", .copy = settings, .variables = variables};
	struct child_options o = {.argv = argv, .timeout_ns = 30 * NS_PER_S, .workshop = &workshop};
	struct buf out = BUF_INIT(CHILD_OUTPUT_MAX);
	char *save = NULL;

	if (child_run(&o, &out, NULL) == 0 && buf_add_u8(&out, 0) == 0)
		for (char *p = strtok_r((char *)out.data + out.start, "\n", &save);
			p && a->count + 32 < ARGUMENTS_MAX; p = strtok_r(NULL, "\n", &save))
			if (is_network_setting(p))
				add_argument(a, str_printf("--aptopt=%s", p));
	buf_done(&out);
}

static int write_sources(const char *tmp, const char *suite, bool deb822, struct arguments *a)
{
	struct buf text = BUF_INIT(SOURCES_MAX);
	_cleanup_free_ char *path = str_printf("%s/debian.%s", tmp, deb822 ? "sources" : "list");
	int r = path ? host_sources(deb822, suite, &text) : -ENOMEM;

	if (r == 0 && buf_len(&text) > 0) {
		r = file_write_atomic(AT_FDCWD, path, buf_head(&text), buf_len(&text), 0644);
		add_argument(a, TAKE_PTR(path));
	}
	buf_done(&text);
	return r;
}

/* Whether the host has "VERSION_CODENAME=bookworm". */
static bool host_runs(const char *suite)
{
	_cleanup_free_ char *text = NULL;
	const char *p;
	size_t n = strlen(suite);

	if (file_read(AT_FDCWD, "/etc/os-release", SOURCES_MAX, &text, NULL) < 0)
		return false;
	p = strstr(text, "VERSION_CODENAME=");
	return p && strncmp(p + 17, suite, n) == 0 && (p[17 + n] == '\n' || p[17 + n] == '\0');
}

static char *join_packages(const struct recipe *r)
{
	struct buf b = BUF_INIT(64 << 10);
	int v = buf_add_str(&b, "--include=");
	char *s;

	for (size_t i = 0; v == 0 && i < r->package_count; i++)
		v = buf_printf(&b, "%s%s", i ? "," : "", r->packages[i]);
	s = v == 0 ? strndup((const char *)buf_head(&b), buf_len(&b)) : NULL;
	buf_done(&b);
	return s;
}

static void add_copy(struct arguments *a, const char *from, const char *to)
{
	add_argument(a, str_printf("--customize-hook=mkdir -p \"$1\"'%s'", to));
	add_argument(a, str_printf("--customize-hook=copy-in '%s' '%s'", from, to));
}

static void show_file(struct arguments *a, const char *path)
{
	char *copy = a->file_count < FILES_MAX ? strdup(path) : NULL;

	if (copy)
		a->files[a->file_count++] = copy;
	else
		a->r = a->file_count < FILES_MAX ? -ENOMEM : -E2BIG;
}

/* Copies a file of this host into the image. In a workshop the file belongs to nobody, and
 * mmdebstrap's copy-in would keep that owner. */
static void add_host_file(struct arguments *a, const char *from, const char *to)
{
	if (!a->in_workshop) {
		add_copy(a, from, to);
		return;
	}
	show_file(a, from);
	add_argument(a, str_printf("--customize-hook=mkdir -p \"$1\"'%s'", to));
	add_argument(a, str_printf("--customize-hook=cp -R -P --preserve=mode,timestamps,links "
				   "'%s' \"$1\"'%s/'",
				from, to));
}

/* Copies the content of `tree` into a directory that may have other content. */
static void add_tree(struct arguments *a, const char *tree, const char *to)
{
	add_argument(a, str_printf("--customize-hook=mkdir -p \"$1\"'%s'", to));
	add_argument(a, str_printf("--customize-hook=sync-in '%s' '%s'", tree, to));
}

/* Quotes a text as one word for a shell. */
static int quote(const char *text, struct buf *out)
{
	int r = buf_add_u8(out, '\'');

	for (; *text && r == 0; text++)
		r = *text == '\'' ? buf_add_str(out, "'\\''") : buf_add_u8(out, (uint8_t)*text);
	return r == 0 ? buf_add_u8(out, '\'') : r;
}

/* Adds a command from the recipe. Root runs it in the image, without this host's environment. */
static void add_run(struct arguments *a, const char *command)
{
	static const char head[] =
		"--customize-hook=chroot \"$1\" env -i HOME=/root LANG=C.UTF-8 "
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -ec ";
	struct buf b = BUF_INIT(5 * CONFIG_TEXT_MAX);
	int r = buf_add_str(&b, head);

	if (r == 0)
		r = quote(command, &b);
	add_argument(a, r == 0 ? strndup((const char *)buf_head(&b), buf_len(&b)) : NULL);
	buf_done(&b);
}

/* Adds what registry_fetch() left in tmp. */
static int add_fetched(const struct recipe *r, const char *tmp, struct arguments *a)
{
	_cleanup_free_ char *modules = str_printf("%s/npm/node_modules", tmp);

	if (!modules)
		return -ENOMEM;
	if (r->npm.count)
		add_copy(a, modules, "/usr/local/lib");
	for (size_t i = 0; i < r->maven_count; i++) {
		_cleanup_free_ char *tree = str_printf("%s/maven/%zu/tree", tmp, i);

		if (!tree)
			return -ENOMEM;
		add_tree(a, tree, r->maven[i].directory);
	}
	return 0;
}

/* Adds what a recipe copies in, and runs, after the packages are installed. */
static int add_additions(
	const struct recipe *r, const char *tmp, struct arguments *a, struct error *e)
{
	char path[PATH_MAX];
	int v = add_fetched(r, tmp, a);

	if (v < 0)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	for (size_t i = 0; i < r->programs.count && v == 0; i++) {
		v = program_path(r->programs.items[i], path, sizeof(path), e);
		if (v == 0)
			add_host_file(a, path, "/usr/local/bin");
	}
	for (size_t i = 0; i + 1 < r->files.count && v == 0; i += 2) {
		if (realpath(r->files.items[i], path))
			add_host_file(a, path, r->files.items[i + 1]);
		else
			v = error_set_errno(e, ERROR_NOT_FOUND, errno,
				"cannot find %s, which the "
				"recipe adds to the image",
				r->files.items[i]);
	}
	for (size_t i = 0; i < r->run.count; i++)
		add_run(a, r->run.items[i]);
	if (v == 0 && strpbrk(tmp, "'\n"))
		v = error_set(e, ERROR_USAGE, EINVAL, "the state directory's path has a quote");
	return v;
}

static const char *const fixed[] = {"--variant=minbase", "--format=tar",
	"--aptopt=Apt::Install-Recommends \"false\"", "--dpkgopt=force-unsafe-io",
	"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
	"--dpkgopt=path-include=/usr/share/locale/locale.alias",
	"--dpkgopt=path-exclude=/usr/share/doc/*",
	"--dpkgopt=path-include=/usr/share/doc/*/copyright",
	"--dpkgopt=path-exclude=/usr/share/info/*",
	/* Some packages, for instance Java's, put links there and fail without the directory. */
	"--essential-hook=mkdir -p \"$1/usr/share/man/man1\"",
	/* Remove what only the build needs: the host's apt settings and force-unsafe-io. */
	"--customize-hook=rm -f \"$1/etc/apt/apt.conf.d/99mmdebstrap\"",
	"--customize-hook=sed -i /force-unsafe-io/d \"$1/etc/dpkg/dpkg.cfg.d/99mmdebstrap\""};

static bool can_unshare(void)
{
	const char *argv[] = {"unshare", "--mount", "--pid", "--fork", "true", NULL};
	struct child_options o = {.argv = argv, .timeout_ns = 10 * NS_PER_S};

	return child_run(&o, NULL, NULL) == 0;
}

/* In a workshop mmdebstrap is root of its own users. Without one (--jail=off), root gives it and
 * its children their own PID and mount namespaces, so they end together and leave no mount behind.
 * In a container that forbids this, they run without. For other users mmdebstrap then makes
 * namespaces itself. */
static void add_command(struct arguments *a)
{
	static const char *const wrap[] = {
		"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"};
	bool root = geteuid() == 0 || a->in_workshop,
	     wrapped = root && !a->in_workshop && can_unshare();

	for (size_t i = 0; wrapped && i < ARRAY_SIZE(wrap); i++)
		add_argument(a, strdup(wrap[i]));
	add_argument(a, strdup("mmdebstrap"));
	add_argument(a, strdup(root ? "--mode=root" : "--mode=unshare"));
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		add_argument(a, strdup(fixed[i]));
}

static int build_arguments(
	const struct recipe *r, const char *tmp, struct arguments *a, struct error *e)
{
	int v = 0;

	add_command(a);
	add_apt_options(a);
	v = add_additions(r, tmp, a, e);
	if (v < 0)
		return v;
	if (r->package_count > 0)
		add_argument(a, join_packages(r));
	add_argument(a, strdup(r->suite));
	add_argument(a, strdup("-")); /* the tar goes to stdout */
	if (host_runs(r->suite)) {
		v = write_sources(tmp, r->suite, true, a);
		if (v == 0)
			v = write_sources(tmp, r->suite, false, a);
	}
	return v < 0 ? v : a->r;
}

/* Shows mmdebstrap's lines, and keeps those that explain a failure: its first complaint, and the
 * last line that the failing program wrote before. */
struct relay {
	const struct progress *p;
	const char *stage;
	char said[CHILD_LINE_MAX];
	char complaint[CHILD_LINE_MAX];
};

static void keep_line(struct relay *x, const char *line)
{
	if (*x->complaint || str_starts_with(line, "I: "))
		return;
	if (str_starts_with(line, "E: "))
		(void)snprintf(x->complaint, sizeof(x->complaint), "%s", line + 3);
	else if (*line && !str_starts_with(line, "W: "))
		(void)snprintf(x->said, sizeof(x->said), "%s", line);
}

static int relay_line(void *opaque, const char *line)
{
	struct relay *x = opaque;

	keep_line(x, line);
	if (str_starts_with(line, "I: "))
		line += 3;
	return progress_report(x->p, x->stage, PROGRESS_NO_PERCENT, line);
}

/* Whether a command of the recipe failed, and not the archive: "E: setup failed: E: command failed:
 * chroot ...". */
static bool is_own_command(const struct relay *x)
{
	return strstr(x->complaint, "command failed: ") != NULL;
}

/* Whether apt could not reach the archive. */
static bool is_unreachable(const struct relay *x)
{
	return str_starts_with(x->complaint, "Failed to fetch") ||
	       str_starts_with(x->complaint, "Unable to ");
}

/* Turns mmdebstrap's failure into an error that says what failed and what to do. */
static void say_failure(
	const struct relay *x, const struct recipe *r, const struct error *why, struct error *e)
{
	const char *command = strstr(x->complaint, " sh -ec ");

	if (why->code != ERROR_HOST || !*x->complaint) {
		if (e && e->code == ERROR_NONE)
			*e = *why;
	} else if (is_own_command(x)) {
		(void)error_set(e, ERROR_HOST, EIO,
			"a command of the recipe failed in the image: %.250s%s%.160s", x->said,
			command ? ": " : "", command ? command + strlen(" sh -ec ") : "");
	} else {
		(void)error_set(e, ERROR_HOST, EIO, "`mmdebstrap %s` failed (%.120s%s%.170s)%s",
			r->suite, x->said, *x->said ? "; " : "", x->complaint,
			is_unreachable(x) ? ARCHIVE_REMEDY : "");
	}
}

static int check_programs(struct error *e)
{
	struct subordinate ids;

	if (!child_program_exists("mmdebstrap"))
		return error_set(e, ERROR_HOST, ENOENT,
			"Debian images need mmdebstrap: apt-get install mmdebstrap, or build from "
			"a "
			"root tarball");
	if (geteuid() == 0)
		return 0;
	if (!child_program_exists("newuidmap") || !child_program_exists("newgidmap"))
		return error_set(e, ERROR_HOST, ENOENT,
			"Debian images without root need newuidmap: apt-get install uidmap, or "
			"build as root");
	return subordinate_find(&ids, e);
}

/* Starts mmdebstrap in a workshop where it is root of a user namespace with ids of its own. The
 * packages' scripts run there, too. */
static int start(struct child *c, const struct child_options *o, const struct arguments *a,
	const char *tmp, struct error *e)
{
	static const char *const accounts[] = {"/etc/passwd", "/etc/group", "/etc/dpkg"};
	const char *read[ARRAY_SIZE(accounts) + FILES_MAX + 1] = {NULL};
	const char *const write[] = {tmp, NULL};
	const struct io_workshop workshop = {.user = "root",
		.network = true,
		.read = read,
		.copy = settings,
		.write = write,
		.variables = variables};
	struct child_options mine = *o;

	memcpy(read, accounts, sizeof(accounts));
	for (size_t i = 0; a && i < a->file_count; i++)
		read[ARRAY_SIZE(accounts) + i] = a->files[i];
	if (a)
		mine.workshop = &workshop;
	return child_start(c, &mine, e);
}

/* a: NULL outside of a workshop. */
static int stream(struct rootfs *f, const struct child_options *o, const struct arguments *a,
	const char *tmp, struct error *e)
{
	_cleanup_(child_done) struct child c = CHILD_INIT;
	struct error from_tar = {0};
	int r = start(&c, o, a, tmp, e), finish;

	if (r < 0)
		return r;
	r = unpack_output(&c, PARSE_TAR, rootfs_sink(f), &from_tar);
	if (r < 0 && from_tar.code != ERROR_BAD_IMAGE) {
		child_done(&c);
		if (e && e->code == ERROR_NONE)
			*e = from_tar;
		return r;
	}
	/* A truncated tar is only a consequence; the child knows the reason. */
	finish = child_finish(&c, e);
	if (finish < 0 || r == 0)
		return finish;
	if (e)
		*e = from_tar;
	return r;
}

int debian_add(struct rootfs *f, const struct recipe *r, const char *tmp, const struct progress *p,
	struct error *e)
{
	_cleanup_(arguments_done) struct arguments a = {.in_workshop = workshop_is_used()};
	_cleanup_free_ char *tmpdir = str_printf("TMPDIR=%s", tmp);
	struct relay relay = {.p = p, .stage = stage};
	struct error why = {0};
	/* Without a workshop, mmdebstrap runs under other ids for other users. These cannot enter
	 * our private directory. */
	const char *env[] = {
		"LC_ALL=C.UTF-8", geteuid() == 0 || a.in_workshop ? tmpdir : NULL, NULL};
	struct child_options o = {.argv = a.v,
		.env = env,
		.read_stdout = true,
		.timeout_ns = BUILD_TIMEOUT_S * NS_PER_S,
		.on_line = relay_line,
		.opaque = &relay};
	int v = check_programs(e);

	if (v < 0)
		return v;
	v = registry_fetch(r, tmp, p, e);
	if (v < 0)
		return v;
	v = progress_report(p, stage, PROGRESS_NO_PERCENT, NULL);
	if (v < 0)
		return error_set_errno(e, ERROR_INTERNAL, -v, "the build was ended");
	v = tmpdir ? build_arguments(r, tmp, &a, e) : -ENOMEM;
	if (v < 0)
		return error_set_errno(e, ERROR_INTERNAL, -v, "cannot prepare mmdebstrap");
	v = stream(f, &o, a.in_workshop ? &a : NULL, tmp, &why);
	if (v < 0)
		say_failure(&relay, r, &why, e);
	return v;
}
