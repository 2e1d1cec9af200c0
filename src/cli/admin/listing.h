/* Prints a list for the verbs `ls`, as a table or as JSON. */
#ifndef CLI_LISTING_H
#define CLI_LISTING_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "cli/table.h"

struct listing {
	const char *path; /* listing_run() asks for it (ask.h) */
	const char *const *heading;
	unsigned columns;
	void (*row)(struct table *t, const json_t *one); /* adds one */
};

/* Prints a list. Takes ownership of it. */
int listing_print(const struct listing *l, json_t *list, bool json, struct error *e);

/* Runs the whole verb: asks for the list, and prints it. */
int listing_run(const struct listing *l, int argc, char **argv, bool json, struct error *e);

#endif
