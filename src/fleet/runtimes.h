/* Runtimes: names that clients request who do not know templates. Each stands for a template of the
 * operator. Built in are base, python-3.12, node-20 and deno, for the templates of these names. The
 * operator's list adds to them. Of equal names the last one counts. Entries of the list:
 *
 *	NAME=TEMPLATE		that template
 *	NAME=image:REFERENCE	the template that is made of this image (`template build --from`)
 *
 * The name of an image's template is the last part of REFERENCE, with 12 digits of the SHA-256 of
 * all of it. No two images share a name. */
#ifndef FLEET_RUNTIMES_H
#define FLEET_RUNTIMES_H

#include <stdbool.h>

#include "base/error.h"
#include "base/options.h"

enum { RUNTIME_NAME_MAX = 64, RUNTIME_IMAGE_MAX = 1024 };

struct runtime {
	char name[RUNTIME_NAME_MAX + 1], template[RUNTIME_NAME_MAX + 1];
	const char *image; /* REFERENCE, borrowed from the list; NULL: a template */
	unsigned number;   /* of runtimes_get() */
};

/* Checks the operator's list, which may be NULL here and below. ERROR_USAGE. Whether an image's
 * REFERENCE is one is for the caller to say. */
int runtimes_check(const struct option_list *list, struct error *e);

/* The runtimes by their number, from 0 on: names that are built in first. False: there are no
 * more. */
bool runtimes_get(const struct option_list *list, unsigned number, struct runtime *ret);

/* False: there is no such runtime. */
bool runtimes_find(const struct option_list *list, const char *name, struct runtime *ret);

/* All names with commas between them, for people. malloc'ed; NULL when out of memory. */
char *runtimes_names(const struct option_list *list);

#endif
