/* Runtimes: names that clients request who do not know templates. Each stands for a template of the
 * operator. Built in are base, python-3.12, node-20 and deno, for the templates of these names. The
 * operator's list of NAME=TEMPLATE adds to them; of equal names the last one counts. */
#ifndef FLEET_RUNTIMES_H
#define FLEET_RUNTIMES_H

#include "base/error.h"
#include "base/options.h"

/* Checks the operator's list, which may be NULL here and below. ERROR_USAGE. */
int runtimes_check(const struct option_list *list, struct error *e);

/* The template of a runtime, borrowed from the list; NULL: there is no such runtime. */
const char *runtimes_find(const struct option_list *list, const char *name);

/* All names with commas between them, for people. malloc'ed; NULL when out of memory. */
char *runtimes_names(const struct option_list *list);

#endif
