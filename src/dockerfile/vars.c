#include "dockerfile/vars.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

void vars_done(struct vars *v)
{
	for (size_t i = 0; i < v->count; i++)
		free(v->items[i]);
	free(v->items);
	*v = (struct vars){NULL, 0};
}

static char **find(const struct vars *v, const char *name, size_t n)
{
	for (size_t i = 0; i < v->count; i++)
		if (strncmp(v->items[i], name, n) == 0 && v->items[i][n] == '=')
			return &v->items[i];
	return NULL;
}

int vars_set_entry(struct vars *v, const char *entry)
{
	size_t n = strcspn(entry, "=");
	char **old = find(v, entry, n), *copy = strdup(entry), **more;

	if (!copy)
		return -ENOMEM;
	if (old) {
		free(*old);
		*old = copy;
		return 0;
	}
	more = v->count < VARS_MAX ? reallocarray(v->items, v->count + 1, sizeof(*more)) : NULL;
	if (!more) {
		free(copy);
		return v->count < VARS_MAX ? -ENOMEM : -E2BIG;
	}
	v->items = more;
	v->items[v->count++] = copy;
	return 0;
}

int vars_set(struct vars *v, const char *name, const char *value)
{
	char *entry = str_printf("%s=%s", name, value);
	int r = entry ? vars_set_entry(v, entry) : -ENOMEM;

	free(entry);
	return r;
}

const char *vars_get(const struct vars *v, const char *name)
{
	size_t n = strlen(name);
	char **at = find(v, name, n);

	return at ? *at + n + 1 : NULL;
}

int vars_copy(const struct vars *from, struct vars *to)
{
	int r = 0;

	for (size_t i = 0; i < from->count && r == 0; i++)
		r = vars_set_entry(to, from->items[i]);
	return r;
}
