/* Builds the command line with which child_start() runs an external program in a jail, by
 * mayfly-workshop (jail/workshop.h). */
#ifndef IO_WORKSHOP_H
#define IO_WORKSHOP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum {
	WORKSHOP_WORDS_MAX = 512,     /* arguments of mayfly-workshop, including the program's
				       * own */
	WORKSHOP_VARIABLES_MAX = 256, /* of the program's environment */
};

/* What a program needs. Lists end with NULL, and may be NULL. Paths are absolute. read, copy and
 * write are those of jail/workshop_spec.h. */
struct io_workshop {
	const char *user; /* "nobody", "reader" or "root" */
	bool network;
	const char *const *read, *const *copy, *const *write;
	/* Names of environment variables that the program inherits. It always inherits those for
	 * programs, home, locale, proxies and certificates (`common` in workshop.c). A name that
	 * ends in '_' stands for all variables that begin with it. If a variable's value is the
	 * path of a file, the program also gets a copy of that file. */
	const char *const *variables;
};

/* The resulting arguments and environment. Some strings are owned, the others borrowed. */
struct workshop_words {
	const char *argv[WORKSHOP_WORDS_MAX + 1], *env[WORKSHOP_VARIABLES_MAX + 1];
	unsigned argc, envc;
	char *owned[WORKSHOP_WORDS_MAX];
	unsigned owned_count;
};

/* Whether programs run in workshops: not with --jail=off. */
bool workshop_is_used(void);

/* Fills ret for `program` (a path) with its arguments argv. env is added to the variables that it
 * inherits, and overrides them. argv and env are borrowed and must outlive ret. ERROR_HOST if this
 * host allows no jail. */
int workshop_wrap(const struct io_workshop *w, const char *program, const char *const *argv,
	const char *const *env, struct workshop_words *ret, struct error *e);

void workshop_words_done(struct workshop_words *w);

#endif
