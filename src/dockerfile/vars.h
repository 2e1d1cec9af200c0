/* Variables of a stage: a small list of names with values, in the order of their first setting. */
#ifndef DOCKERFILE_VARS_H
#define DOCKERFILE_VARS_H

#include <stddef.h>

enum { VARS_MAX = 512 };

struct vars {
	char **items; /* "NAME=VALUE"; owned, like the list */
	size_t count;
};

void vars_done(struct vars *v);

/* Sets a variable, new or not. Returns 0, -ENOMEM, or -E2BIG beyond VARS_MAX. */
int vars_set(struct vars *v, const char *name, const char *value);

/* The same for "NAME=VALUE". */
int vars_set_entry(struct vars *v, const char *entry);

/* Returns the value, or NULL if it is not set. */
const char *vars_get(const struct vars *v, const char *name);

int vars_copy(const struct vars *from, struct vars *to); /* `to` is empty; 0 or -ENOMEM */

#endif
