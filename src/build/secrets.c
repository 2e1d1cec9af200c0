#include "build/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

/* What one word says. The strings are parts of a copy. */
struct word {
	const char *id, *src, *env, *type;
};

static int parse(char *text, struct word *w, struct error *e)
{
	const struct {
		const char *key;
		const char **to;
	} keys[] = {{"id=", &w->id}, {"src=", &w->src}, {"source=", &w->src}, {"env=", &w->env},
		{"type=", &w->type}};

	for (char *part; (part = strsep(&text, ","));) {
		size_t i = 0;

		while (i < ARRAY_SIZE(keys) && !str_starts_with(part, keys[i].key))
			i++;
		if (i == ARRAY_SIZE(keys))
			return error_set(e, ERROR_USAGE, EINVAL,
				"--secret must be id=NAME,src=FILE or id=NAME,env=VARIABLE");
		*keys[i].to = part + strlen(keys[i].key);
	}
	if (!w->id || !*w->id || (w->src && w->env && !w->type))
		return error_set(e, ERROR_USAGE, EINVAL,
			"--secret must have an id, and src or env but not both");
	if (w->type && strcmp(w->type, "file") != 0 && strcmp(w->type, "env") != 0)
		return error_set(e, ERROR_USAGE, EINVAL, "--secret: type must be file or env");
	if (w->type && strcmp(w->type, "env") == 0 && w->src && !w->env) {
		w->env = w->src; /* as docker reads it */
		w->src = NULL;
	}
	return 0;
}

static int read_value(const struct word *w, struct build_secret *s, struct error *e)
{
	const char *value = w->env ? getenv(w->env) : w->src ? NULL : getenv(w->id);
	const char *path = w->src ? w->src : w->id;
	int r;

	if (w->env && !value)
		return error_set(e, ERROR_USAGE, ENOENT, "--secret id=%.60s: %.60s is not set",
			w->id, w->env);
	if (value) {
		s->bytes = strlen(value);
		s->data = strdup(value);
		r = !s->data ? -ENOMEM : s->bytes > SECRET_BYTES_MAX ? -EFBIG : 0;
	} else {
		r = file_read(AT_FDCWD, path, SECRET_BYTES_MAX, &s->data, &s->bytes);
	}
	return r < 0 ? error_set_errno(e, ERROR_USAGE, -r,
			       "--secret id=%.60s: it cannot be read, or has more than 500 KiB",
			       w->id)
		     : 0;
}

int build_secrets_read(const struct option_list *words, struct build_secrets *ret, struct error *e)
{
	int r = 0;

	ret->count = 0;
	for (unsigned i = 0; i < words->count && r == 0; i++) {
		_cleanup_free_ char *copy = strdup(words->items[i]);
		struct word w = {NULL, NULL, NULL, NULL};
		struct build_secret *s = &ret->items[ret->count];

		if (ret->count == SECRETS_MAX)
			return error_set(
				e, ERROR_LIMIT, E2BIG, "more than %d --secret", SECRETS_MAX);
		*s = (struct build_secret){NULL, NULL, 0};
		r = copy ? parse(copy, &w, e) : -ENOMEM;
		if (r < 0)
			return r;
		ret->count++;
		s->id = strdup(w.id);
		r = s->id ? read_value(&w, s, e) : -ENOMEM;
	}
	return r;
}

void build_secrets_done(struct build_secrets *s)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->items[i].data)
			explicit_bzero(s->items[i].data, s->items[i].bytes);
		free(s->items[i].data);
		free(s->items[i].id);
	}
	s->count = 0;
}

const struct build_secret *build_secrets_find(const struct build_secrets *s, const char *id)
{
	for (size_t i = 0; s && i < s->count; i++)
		if (strcmp(s->items[i].id, id) == 0)
			return &s->items[i];
	return NULL;
}
