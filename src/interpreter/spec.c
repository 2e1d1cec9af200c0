#include "interpreter/spec.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "proto/json_text.h"

static bool all_strings(const json_t *j)
{
	const char *key;
	size_t i;
	json_t *v;

	json_array_foreach(j, i, v) if (!json_is_string(v)) return false;
	json_object_foreach((json_t *)(uintptr_t)j, key, v) if (!json_is_string(v)) return false;
	return true;
}

/* Fills s from its JSON. Returns NULL, or why the kernelspec cannot be used. */
static const char *fill(struct spec *s)
{
	json_t *mayfly = json_object_get(json_object_get(s->json, "metadata"), "mayfly");
	const char *mode = json_string_value(json_object_get(s->json, "interrupt_mode"));
	const char *quote = json_string_value(json_object_get(mayfly, "quote"));

	s->language = json_string_value(json_object_get(s->json, "language"));
	s->argv = json_object_get(s->json, "argv");
	s->env = json_object_get(s->json, "env");
	s->languages = json_object_get(mayfly, "languages");
	s->interrupt_by_message = mode && strcmp(mode, "message") == 0;
	s->quote_shell = quote && strcmp(quote, "shell") == 0;
	s->lazy = json_is_true(json_object_get(mayfly, "lazy"));
	s->late_output = json_is_true(json_object_get(mayfly, "late_output"));
	s->heartbeat = json_is_true(json_object_get(mayfly, "heartbeat"));
	s->set_env = json_string_value(json_object_get(mayfly, "set_env"));
	s->unset_env = json_string_value(json_object_get(mayfly, "unset_env"));
	s->reseed = json_string_value(json_object_get(mayfly, "reseed"));
	if (!s->language || !*s->language || strlen(s->language) >= SPEC_LANGUAGE_MAX)
		return "no language";
	if (!json_is_array(s->argv) || !json_array_size(s->argv) || !all_strings(s->argv))
		return "argv is no list of words";
	if (s->env && (!json_is_object(s->env) || !all_strings(s->env)))
		return "env is no table of texts";
	if (s->languages && (!json_is_array(s->languages) || !all_strings(s->languages)))
		return "languages is no list of names";
	return !s->set_env != !s->unset_env ? "set_env and unset_env belong together" : NULL;
}

/* True if what the kernel needs is installed. */
static bool is_installed(const struct spec *s)
{
	const json_t *mayfly = json_object_get(json_object_get(s->json, "metadata"), "mayfly");
	const char *path = json_string_value(json_object_get(mayfly, "needs"));

	return !path || access(path, F_OK) == 0;
}

static void done(struct spec *s)
{
	free(s->directory);
	json_decref(s->json);
	*s = (struct spec){0};
}

static void add(struct specs *specs, const char *directory, const char *name)
{
	struct spec s = {.directory = str_printf("%s/%s", directory, name)};
	_cleanup_free_ char *path = str_printf("%s/%s/kernel.json", directory, name);
	_cleanup_free_ char *text = NULL;
	const char *wrong = "it cannot be read";
	size_t n;

	if (s.directory && path && file_read(AT_FDCWD, path, SPEC_FILE_MAX, &text, &n) == 0) {
		s.json = json_loadb(text, n, 0, NULL);
		wrong = s.json ? fill(&s) : "it is no JSON";
	}
	if (!wrong && specs->count == SPEC_MAX)
		wrong = "there are too many";
	if (!wrong && !is_installed(&s)) {
		done(&s);
		return;
	}
	if (wrong) {
		log_warn("kernelspec %s/%s is left out: %s", directory, name, wrong);
		done(&s);
		return;
	}
	specs->items[specs->count++] = s;
}

void specs_add_directory(struct specs *s, const char *directory)
{
	/* absolute, as kernels start in other directories */
	_cleanup_free_ char *absolute = realpath(directory, NULL);
	struct dirent **entries = NULL;
	int n = absolute ? scandir(absolute, &entries, NULL, alphasort) : 0;

	for (int i = 0; i < n; i++) {
		if (entries[i]->d_name[0] != '.')
			add(s, absolute, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
}

void specs_done(struct specs *s)
{
	while (s->count)
		done(&s->items[--s->count]);
}

const char *spec_language(const char *name, char out[SPEC_LANGUAGE_MAX])
{
	static const char *const aliases[][2] = {{"js", "javascript"}, {"ts", "typescript"},
		{"py", "python"}, {"python3", "python"}, {"sh", "bash"}};
	size_t n = 0;

	for (; name[n] && n + 1 < SPEC_LANGUAGE_MAX; n++)
		out[n] = (char)tolower((unsigned char)name[n]);
	out[n] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
		if (strcmp(out, aliases[i][0]) == 0)
			return strcpy(out, aliases[i][1]); /* shorter than out */
	return out;
}

static bool serves(const struct spec *s, const char *language)
{
	char name[SPEC_LANGUAGE_MAX];
	size_t i;
	json_t *v;

	json_array_foreach(s->languages, i, v) if (strcmp(spec_language(json_string_value(v), name),
							   language) == 0) return true;
	return !s->languages && strcmp(spec_language(s->language, name), language) == 0;
}

const struct spec *specs_find(const struct specs *s, const char *language)
{
	for (size_t i = 0; i < s->count; i++)
		if (serves(&s->items[i], language))
			return &s->items[i];
	return NULL;
}

static int list_one(
	const struct specs *specs, const struct spec *s, const char *name, struct buf *out)
{
	char language[SPEC_LANGUAGE_MAX];

	if (specs_find(specs, spec_language(name, language)) != s)
		return 0; /* another kernelspec serves it */
	return buf_printf(out, "%s%s", buf_len(out) ? ", " : "", language);
}

int specs_list(const struct specs *s, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < s->count && r == 0; i++) {
		const struct spec *spec = &s->items[i];
		size_t k;
		json_t *v;

		if (!spec->languages)
			r = list_one(s, spec, spec->language, out);
		json_array_foreach(spec->languages, k, v) if (r == 0) r =
			list_one(s, spec, json_string_value(v), out);
	}
	return r;
}

static int add_shell(struct buf *out, const char *text)
{
	int r = buf_add_str(out, "'");

	for (; r == 0 && *text; text++)
		r = *text == '\'' ? buf_add_str(out, "'\\''") : buf_add_u8(out, (uint8_t)*text);
	return r == 0 ? buf_add_str(out, "'") : r;
}

static int add_quoted(const struct spec *s, const char *text, struct buf *out)
{
	return s->quote_shell ? add_shell(out, text)
			      : json_text_string(out, text, strlen(text), JSON_TEXT_UTF8);
}

int spec_add_code(const struct spec *s, const char *template, const char *name, const char *value,
	struct buf *out)
{
	int r = 0;

	while (r == 0 && *template) {
		if (name && str_starts_with(template, "{name}")) {
			r = add_quoted(s, name, out);
			template += strlen("{name}");
		} else if (value && str_starts_with(template, "{value}")) {
			r = add_quoted(s, value, out);
			template += strlen("{value}");
		} else {
			r = buf_add_u8(out, (uint8_t) * template ++);
		}
	}
	return r == 0 ? buf_add_str(out, "\n") : r;
}
