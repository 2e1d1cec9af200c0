/* Parses NAME=VALUE on the command line: --env and similar options. */
#ifndef CLI_ENVIRONMENT_H
#define CLI_ENVIRONMENT_H

#include <jansson.h>

#include "base/error.h"
#include "base/options.h"

struct environment {
	char *items[OPTION_LIST_MAX + 1]; /* "NAME=VALUE", owned, NULL-terminated */
	unsigned count;
};

/* For --env: NAME alone passes on the variable of that name, if it exists. */
int environment_read(const struct option_list *list, struct environment *ret, struct error *e);
void environment_done(struct environment *env);

/* Makes an object of strings. Returns NULL if a text is not valid UTF-8. */
json_t *environment_json(const struct environment *env);

/* Makes an object of an option's NAME=VALUE pairs. */
int environment_pairs(
	const struct option_list *list, const char *option, json_t **ret, struct error *e);

#endif
