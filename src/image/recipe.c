#include "image/recipe.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

#define BLANKS " \t"

static const char *const source_names[] = {
	[IMAGE_SOURCE_NONE] = "none",
	[IMAGE_SOURCE_DEBIAN] = "debian",
	[IMAGE_SOURCE_BUSYBOX] = "busybox",
	[IMAGE_SOURCE_TAR] = "tar",
	[IMAGE_SOURCE_DIRECTORY] = "directory",
};

const char *image_source_name(enum image_source source)
{
	return source_names[source];
}

/* Sets one value: 0, or -errno, which recipe_parse turns into a message. */
typedef int (*setter)(struct recipe *r, const char *value);

static int set_name(struct recipe *r, const char *v)
{
	return str_is_name(v) ? config_set_text(&r->name, v) : -EINVAL;
}

static int set_source(struct recipe *r, const char *v)
{
	for (size_t i = IMAGE_SOURCE_DEBIAN; i < ARRAY_SIZE(source_names); i++)
		if (strcmp(v, source_names[i]) == 0) {
			r->source = (enum image_source)i;
			return 0;
		}
	return -EINVAL;
}

static int set_suite(struct recipe *r, const char *v)
{
	return str_is_name(v) ? config_set_text(&r->suite, v) : -EINVAL;
}

static int set_path(struct recipe *r, const char *v)
{
	return config_set_text(&r->path, v);
}

/* Debian policy 5.6.7, with an optional architecture. */
static bool is_package(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789+-.:");

	return n >= 2 && s[n] == '\0' && isalnum((unsigned char)s[0]);
}

static int add_package(void *recipe, const char *name)
{
	struct recipe *r = recipe;

	if (!is_package(name))
		return -EINVAL;
	if (r->package_count == RECIPE_PACKAGES_MAX)
		return -E2BIG;
	if (!r->packages)
		r->packages = calloc(RECIPE_PACKAGES_MAX, sizeof(*r->packages));
	if (!r->packages)
		return -ENOMEM;
	r->packages[r->package_count] = strdup(name);
	return r->packages[r->package_count++] ? 0 : -ENOMEM;
}

/* Calls a function for every word of a value; stops at the first failure. */
static int each_word(
	const char *v, const char *separators, int (*add)(void *to, const char *word), void *to)
{
	_cleanup_free_ char *list = strdup(v);
	char *save = NULL;
	int e = list ? 0 : -ENOMEM;

	for (char *p = list ? strtok_r(list, separators, &save) : NULL; p && e == 0;
		p = strtok_r(NULL, separators, &save))
		e = add(to, p);
	return e;
}

static int add_packages(struct recipe *r, const char *v)
{
	return each_word(v, BLANKS, add_package, r);
}

static void list_done(struct recipe_list *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->items[i]);
	free(l->items);
}

/* Whether the word has only plain characters, which need no quoting anywhere. */
static bool is_plain(const char *word)
{
	return *word != '-' &&
	       !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789@/._+:-")];
}

static int add_item(struct recipe_list *l, const char *item)
{
	if (l->count == RECIPE_LIST_MAX)
		return -E2BIG;
	if (!l->items)
		l->items = calloc(RECIPE_LIST_MAX, sizeof(*l->items));
	if (!l->items)
		return -ENOMEM;
	l->items[l->count] = strdup(item);
	return l->items[l->count++] ? 0 : -ENOMEM;
}

static int add_word(void *list, const char *word)
{
	return is_plain(word) ? add_item(list, word) : -EINVAL;
}

static int add_words(struct recipe_list *l, const char *v)
{
	return each_word(v, BLANKS, add_word, l);
}

static int add_npm(struct recipe *r, const char *v)
{
	return add_words(&r->npm, v);
}

static int add_programs(struct recipe *r, const char *v)
{
	return strchr(v, '/') ? -EINVAL : add_words(&r->programs, v);
}

static int add_files(struct recipe *r, const char *v)
{
	size_t before = r->files.count;
	int e = add_words(&r->files, v);

	if (e < 0)
		return e;
	return r->files.count == before + 2 && *r->files.items[before + 1] == '/' ? 0 : -EINVAL;
}

/* Parses "ARTIFACT FOLDER DIRECTORY". */
static int add_artifact(struct recipe *r, const char *v)
{
	struct recipe_list words = {0};
	int e = r->maven_count < RECIPE_ARTIFACTS_MAX ? add_words(&words, v) : -E2BIG;

	if (e == 0 && (words.count != 3 || *words.items[2] != '/'))
		e = -EINVAL;
	if (e == 0) {
		r->maven[r->maven_count++] =
			(struct recipe_artifact){words.items[0], words.items[1], words.items[2]};
		words.count = 0; /* the recipe owns them now */
	}
	list_done(&words);
	return e;
}

static int add_run(struct recipe *r, const char *v)
{
	return strlen(v) < CONFIG_TEXT_MAX ? add_item(&r->run, v) : -E2BIG;
}

static int set_description(struct recipe *r, const char *v)
{
	return config_set_text(&r->config.description, v);
}

static int set_user(struct recipe *r, const char *v)
{
	return config_set_text(&r->config.user, v);
}

/* `mayfly template build` checks the value further. */
static int set_network(struct recipe *r, const char *v)
{
	return config_set_text(&r->config.network, v);
}

static int set_workdir(struct recipe *r, const char *v)
{
	return *v == '/' ? config_set_text(&r->config.workdir, v) : -EINVAL;
}

static int set_start(struct recipe *r, const char *v)
{
	return config_set_text(&r->config.start_command, v);
}

static int set_ready(struct recipe *r, const char *v)
{
	return config_set_text(&r->config.ready_command, v);
}

static int set_warm(struct recipe *r, const char *v)
{
	return config_set_text(&r->config.warm_command, v);
}

static int set_entry(struct recipe *r, const char *v)
{
	return config_set_text(&r->config.entry_command, v);
}

static int set_env(struct recipe *r, const char *v)
{
	return config_add_env(&r->config, v);
}

static int set_cpus(struct recipe *r, const char *v)
{
	uint64_t n;

	if (str_parse_u64(v, &n) < 0 || n == 0)
		return -EINVAL;
	if (n > CONFIG_CPUS_MAX)
		return -ERANGE;
	r->config.cpus = (uint32_t)n;
	return 0;
}

static int parse_mb(const char *v, uint32_t min, uint32_t max, uint32_t *ret)
{
	uint64_t n;

	if (str_parse_bytes(v, 1 << 20, &n) < 0)
		return -EINVAL;
	n >>= 20;
	if (n < min || n > max)
		return -ERANGE;
	*ret = (uint32_t)n;
	return 0;
}

static int set_memory(struct recipe *r, const char *v)
{
	return parse_mb(v, CONFIG_MEMORY_MB_MIN, CONFIG_MEMORY_MB_MAX, &r->config.memory_mb);
}

static int set_disk(struct recipe *r, const char *v)
{
	return parse_mb(v, CONFIG_DISK_MB_MIN, CONFIG_DISK_MB_MAX, &r->config.disk_mb);
}

static const struct key {
	const char *name;
	setter set;
	bool repeats;
	const char *wants;
} keys[] = {
	{"name", set_name, false, "1 to 64 of a-z 0-9 . _ -"},
	{"description", set_description, false, "a line of text"},
	{"source", set_source, false, "debian, busybox, tar or directory"},
	{"suite", set_suite, false, "a Debian suite like bookworm"},
	{"packages", add_packages, true, "package names with spaces between them"},
	{"npm", add_npm, true, "npm packages with spaces between them"},
	{"maven", add_artifact, true, "an artifact, a folder of it and an absolute directory"},
	{"run", add_run, true, "a shell command"},
	{"programs", add_programs, true, "programs of Mayfly's with spaces between them"},
	{"files", add_files, true, "a path and an absolute directory of the image"},
	{"path", set_path, false, "a path"},
	{"user", set_user, false, "a user name"},
	{"workdir", set_workdir, false, "an absolute path"},
	{"network", set_network, false, "off, or names and addresses"},
	{"env", set_env, true, "NAME=VALUE"},
	{"cpus", set_cpus, false, "1 to 32"},
	{"memory", set_memory, false, "a size like 512M, from 64M to 1024G"},
	{"disk", set_disk, false, "a size like 2G, from 64M to 16384G"},
	{"start", set_start, false, "a shell command"},
	{"ready", set_ready, false, "a shell command"},
	{"warm", set_warm, false, "a shell command"},
	{"entry", set_entry, false, "a shell command"},
};

struct position {
	const char *file;
	unsigned line;
	uint32_t seen; /* bit i: keys[i] was given */
};

static char *trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r");
	for (n = strlen(s); n > 0 && strchr(" \t\r", s[n - 1]); n--)
		s[n - 1] = '\0';
	return s;
}

static int parse_line(struct recipe *r, char *line, struct position *at, struct error *e)
{
	char *eq, *key, *value;
	int v;

	line = trim(line);
	if (*line == '\0' || *line == '#')
		return 0;
	eq = strchr(line, '=');
	if (!eq)
		return error_set(e, ERROR_USAGE, EINVAL, "%s:%u: expected `key = value`", at->file,
			at->line);
	*eq = '\0';
	key = trim(line);
	value = trim(eq + 1);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].name, key) != 0)
			continue;
		if ((at->seen & 1u << i) && !keys[i].repeats)
			return error_set(e, ERROR_USAGE, EINVAL, "%s:%u: `%s` is given twice",
				at->file, at->line, key);
		at->seen |= 1u << i;
		v = *value ? keys[i].set(r, value) : -EINVAL;
		if (v == -ENOMEM)
			return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
		if (v < 0)
			return error_set(e, ERROR_USAGE, -v, "%s:%u: `%s = %.60s`: expected %s%s",
				at->file, at->line, key, value, keys[i].wants,
				v == -E2BIG ? " (there are too many)" : "");
		return 0;
	}
	return error_set(
		e, ERROR_USAGE, EINVAL, "%s:%u: unknown key `%.60s`", at->file, at->line, key);
}

static bool has_additions(const struct recipe *r)
{
	return r->npm.count || r->programs.count || r->files.count || r->maven_count ||
	       r->run.count;
}

/* Checks what concerns several lines. */
static int check(const struct recipe *r, const char *file, struct error *e)
{
	bool has_path = r->source == IMAGE_SOURCE_TAR || r->source == IMAGE_SOURCE_DIRECTORY;
	const char *wrong = NULL;
	int v;

	if (!r->name)
		wrong = "`name` is missing";
	else if (r->source == IMAGE_SOURCE_NONE)
		wrong = "`source` is missing: debian, busybox, tar or directory";
	else if (has_path && !r->path)
		wrong = "`path` is missing: this source needs it";
	else if (!has_path && r->path)
		wrong = "`path` is for the sources tar and directory only";
	else if (r->source != IMAGE_SOURCE_DEBIAN && (r->packages || r->suite || has_additions(r)))
		wrong = "`packages`, `suite`, `npm`, `maven`, `programs`, `files` and `run` are "
			"for the source debian only";
	else if (r->source == IMAGE_SOURCE_DEBIAN && !r->suite)
		wrong = "`suite` is missing: bookworm, for example";
	if (wrong)
		return error_set(e, ERROR_USAGE, EINVAL, "%s: %s", file, wrong);
	v = config_check(&r->config, e);
	if (v < 0)
		error_prefix(e, "%s", file);
	return v;
}

static int parse_text(struct recipe *r, char *text, const char *file, struct error *e)
{
	struct position at = {.file = file};
	int v = 0;

	for (char *p = text; p && v == 0;) {
		char *next = strchr(p, '\n');

		if (next)
			*next++ = '\0';
		at.line++;
		v = parse_line(r, p, &at, e);
		p = next;
	}
	return v == 0 ? check(r, file, e) : v;
}

int recipe_parse(
	const char *text, size_t len, const char *file, struct recipe *ret, struct error *e)
{
	_cleanup_(recipe_done) struct recipe r = {0};
	_cleanup_free_ char *copy = NULL;
	int v;

	if (len > RECIPE_BYTES_MAX || memchr(text, '\0', len))
		return error_set(e, ERROR_USAGE, EINVAL,
			"%s is not a recipe: text of at most %d KiB", file, RECIPE_BYTES_MAX >> 10);
	copy = strndup(text, len);
	if (!copy || config_init(&r.config) < 0)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	v = parse_text(&r, copy, file, e);
	if (v < 0)
		return v;
	*ret = r;
	r = (struct recipe){0};
	return 0;
}

/* Makes a path absolute, or relative to the recipe's directory. */
static int resolve(char **path, const char *file)
{
	const char *slash = strrchr(file, '/');
	char *full;

	if (!*path || **path == '/' || !slash)
		return 0;
	full = str_printf("%.*s/%s", (int)(slash - file), file, *path);
	if (!full)
		return -ENOMEM;
	free(*path);
	*path = full;
	return 0;
}

static int resolve_paths(struct recipe *r, const char *file)
{
	int v = resolve(&r->path, file);

	for (size_t i = 0; i < r->files.count && v == 0; i += 2)
		v = resolve(&r->files.items[i], file);
	return v;
}

int recipe_load(const char *file, struct recipe *ret, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int v = file_read(AT_FDCWD, file, RECIPE_BYTES_MAX, &text, &len);

	if (v < 0)
		return error_set_errno(e, ERROR_NOT_FOUND, -v, "cannot read the recipe %s", file);
	v = recipe_parse(text, len, file, ret, e);
	if (v < 0)
		return v;
	v = resolve_paths(ret, file);
	if (v < 0) {
		recipe_done(ret);
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	return 0;
}

static void artifact_done(struct recipe_artifact *a)
{
	free(a->artifact);
	free(a->folder);
	free(a->directory);
}

int recipe_add_packages(struct recipe *r, const char *names, struct error *e)
{
	int v;

	if (r->source != IMAGE_SOURCE_DEBIAN)
		return error_set(e, ERROR_USAGE, EINVAL,
			"packages can be added to recipes of the source debian only");
	v = each_word(names, BLANKS ",", add_package, r);
	if (v == -ENOMEM)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (v < 0)
		return error_set(e, ERROR_USAGE, -v, "'%.80s': expected package names%s", names,
			v == -E2BIG ? " (there are too many)" : "");
	return 0;
}

void recipe_done(struct recipe *r)
{
	list_done(&r->npm);
	list_done(&r->programs);
	list_done(&r->files);
	list_done(&r->run);
	for (size_t i = 0; i < r->maven_count; i++)
		artifact_done(&r->maven[i]);
	for (size_t i = 0; i < r->package_count; i++)
		free(r->packages[i]);
	free(r->packages);
	free(r->name);
	free(r->suite);
	free(r->path);
	config_done(&r->config);
	*r = (struct recipe){0};
}
