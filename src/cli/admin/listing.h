/* The verbs `ls`: a list of the daemon's as a table, or as JSON. */
#ifndef CLI_LISTING_H
#define CLI_LISTING_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "cli/table.h"

struct listing {
	const char *path; /* what listing_run() asks for: see ask.h */
	const char *const *heading;
	unsigned columns;
	void (*row)(struct table *t, const json_t *one); /* adds one */
};

/* Prints a list, which it takes over. */
int listing_print(const struct listing *l, json_t *list, bool json, struct error *e);

/* The whole verb, of data of the store. */
int listing_run(const struct listing *l, int argc, char **argv, bool json, struct error *e);

#endif
