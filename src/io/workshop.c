#include "io/workshop.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "io/jailed.h"
#include "io/program.h"
#include "io/subordinate.h"

static const char *const common[] = {"PATH", "HOME", "LANG", "LANGUAGE", "LC_", "TZ", "http_proxy",
	"https_proxy", "ftp_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY",
	"FTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "SOURCE_DATE_EPOCH",
	NULL};

/* Directories of programs and libraries, which a workshop always shows. */
static const char *const known[] = {"/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/opt/", NULL};

static void add_word(struct workshop_words *w, const char *word)
{
	if (w->argc <= WORKSHOP_WORDS_MAX)
		w->argv[w->argc] = word;
	w->argc++; /* above the limit, the count shows that one did not fit */
}

static void add_variable(struct workshop_words *w, const char *entry)
{
	if (w->envc <= WORKSHOP_VARIABLES_MAX)
		w->env[w->envc] = entry;
	w->envc++;
}

/* Takes a malloc'ed word; NULL means out of memory. */
static void own_word(struct workshop_words *w, char *word)
{
	if (!word || w->owned_count == WORKSHOP_WORDS_MAX) {
		free(word);
		w->argc = WORKSHOP_WORDS_MAX + 1;
		return;
	}
	w->owned[w->owned_count++] = word;
	add_word(w, word);
}

static void add_paths(struct workshop_words *w, const char *kind, const char *const *paths)
{
	for (; paths && *paths; paths++)
		own_word(w, str_printf("%s=%s", kind, *paths));
}

/* --- the environment --- */

static bool is_named(const char *entry, const char *const *names)
{
	for (; names && *names; names++) {
		size_t n = strlen(*names);

		if (strncmp(entry, *names, n) == 0 && (entry[n] == '=' || (*names)[n - 1] == '_'))
			return true;
	}
	return false;
}

static bool is_replaced(const char *entry, const char *const *env)
{
	size_t n = strcspn(entry, "=") + 1;

	for (; env && *env; env++)
		if (strncmp(*env, entry, n) == 0)
			return true;
	return false;
}

/* Shows the program the file or directory of certificates or settings that a variable names. */
static void add_file_of(struct workshop_words *w, const char *entry)
{
	const char *value = strchr(entry, '=') + 1;
	struct stat st;

	if (str_starts_with(entry, "HOME=") || str_starts_with(entry, "PATH="))
		return;
	if (*value == '/' && stat(value, &st) == 0 && S_ISREG(st.st_mode))
		own_word(w, str_printf("copy=%s", value));
	else if (str_starts_with(entry, "SSL_CERT_DIR=/"))
		own_word(w, str_printf("read=%s", value));
}

static void add_environment(
	struct workshop_words *w, const struct io_workshop *shop, const char *const *env)
{
	for (char **p = environ; *p; p++) {
		if (!strchr(*p, '=') || is_replaced(*p, env) ||
			!(is_named(*p, common) || is_named(*p, shop->variables)))
			continue;
		add_variable(w, *p);
		add_file_of(w, *p);
	}
	for (; env && *env; env++)
		add_variable(w, *env);
}

/* --- the program --- */

/* Whether path is the directory or lies below it. */
static bool is_within(const char *path, const char *directory)
{
	size_t n = strlen(directory);

	return strncmp(path, directory, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool has_home(const char *directory)
{
	const char *home = getenv("HOME");
	char real[PATH_MAX];

	return home &&
	       (is_within(home, directory) || (realpath(home, real) && is_within(real, directory)));
}

/* Shows the directory `levels` levels above path. If that would be the user's home or contain it,
 * tries fewer levels, and in the end shows only the file. */
static void add_directory_of(struct workshop_words *w, const char *path, unsigned levels)
{
	for (; levels > 0; levels--) {
		_cleanup_free_ char *copy = strdup(path);
		char *slash = copy;

		for (unsigned i = 0; slash && i < levels; i++) {
			slash = strrchr(copy, '/');
			if (slash)
				*slash = '\0';
		}
		if (copy && *copy && !has_home(copy)) {
			own_word(w, str_printf("read=%s", copy));
			return;
		}
	}
	own_word(w, str_printf("read=%s", path));
}

static bool is_known(const char *path)
{
	for (const char *const *k = known; *k; k++)
		if (str_starts_with(path, *k))
			return true;
	return false;
}

/* For a program outside of the usual directories, such as one of a version manager in a home: shows
 * the directory in which PATH finds it, and the package that it may be a link into (bin/npm links
 * to lib/node_modules/npm/bin/npm-cli.js). */
static void add_program(struct workshop_words *w, const char *program)
{
	char real[PATH_MAX];

	if (!is_known(program))
		add_directory_of(w, program, 1);
	if (realpath(program, real) && !is_known(real) && strcmp(real, program) != 0)
		add_directory_of(w, real, strstr(real, "/bin/") ? 2 : 1);
}

/* Root has other ids for its workshops. */
static int add_ids(struct workshop_words *w, const struct io_workshop *shop, struct error *e)
{
	struct subordinate ids;
	int r = 0;

	if (geteuid() == 0 || strcmp(shop->user, "root") != 0)
		return 0;
	r = subordinate_find(&ids, e);
	if (r == 0)
		own_word(w, str_printf("ids=%u:%u", ids.uid, ids.gid));
	return r;
}

bool workshop_is_used(void)
{
	return jailed_is_on();
}

int workshop_wrap(const struct io_workshop *shop, const char *program, const char *const *argv,
	const char *const *env, struct workshop_words *ret, struct error *e)
{
	const char *home = getenv("HOME");
	char path[PATH_MAX];
	int r = jailed_prepare(NULL, e); /* where there can be none, this says what to do */

	*ret = (struct workshop_words){.argc = 0};
	if (r == 0)
		r = program_path("mayfly-workshop", path, sizeof(path), e);
	if (r < 0)
		return r;
	own_word(ret, strdup(path));
	add_word(ret, shop->user);
	if (shop->network)
		add_word(ret, "network");
	if (home && *home == '/')
		own_word(ret, str_printf("home=%s", home));
	add_program(ret, program);
	add_environment(ret, shop, env);
	add_paths(ret, "read", shop->read);
	add_paths(ret, "copy", shop->copy);
	add_paths(ret, "write", shop->write);
	r = add_ids(ret, shop, e);
	if (r < 0)
		return r;
	add_word(ret, "--");
	own_word(ret, strdup(program));
	for (argv++; *argv; argv++)
		add_word(ret, *argv);
	if (ret->argc <= WORKSHOP_WORDS_MAX && ret->envc <= WORKSHOP_VARIABLES_MAX)
		return 0;
	return error_set(e, ERROR_LIMIT, E2BIG,
		"%s has too many arguments or variables for its jail: shorten the recipe", program);
}

void workshop_words_done(struct workshop_words *w)
{
	for (unsigned i = 0; i < w->owned_count; i++)
		free(w->owned[i]);
	*w = (struct workshop_words){.argc = 0};
}
