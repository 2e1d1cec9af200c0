#include "interpreter/sandbox_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Points items at the variables in text, which ends in a NUL. */
static int split(struct sandbox_env *e, size_t n)
{
	char **items = calloc(SANDBOX_ENV_COUNT_MAX + 1, sizeof(*items));

	if (!items)
		return -ENOMEM;
	e->items = items;
	for (char *p = e->text; p < e->text + n && e->count < SANDBOX_ENV_COUNT_MAX;
		p += strlen(p) + 1) {
		const char *equals = strchr(p, '=');

		if (equals && equals != p)
			items[e->count++] = p;
	}
	return 0;
}

void sandbox_env_refresh(struct sandbox_env *e)
{
	struct stat st;
	size_t n;
	int r;

	if (!e->path || stat(e->path, &st) < 0 || (e->generation && is_same(&st, &e->seen)))
		return;
	sandbox_env_done(e);
	e->seen = st;
	e->generation++;
	r = file_read(AT_FDCWD, e->path, SANDBOX_ENV_BYTES_MAX, &e->text, &n);
	if (r == 0)
		r = split(e, n);
	if (r < 0)
		log_error("cannot read the sandbox's variables in %s: %s", e->path, strerror(-r));
}

void sandbox_env_done(struct sandbox_env *e)
{
	free(e->items);
	free(e->text);
	e->items = NULL;
	e->text = NULL;
	e->count = 0;
}

const char *sandbox_env_get(const struct sandbox_env *e, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < e->count; i++)
		if (strncmp(e->items[i], name, n) == 0 && e->items[i][n] == '=')
			return e->items[i] + n + 1;
	return NULL;
}
