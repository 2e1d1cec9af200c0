/* The workshops of this process's external programs (jail/workshop.h): how child_start() wraps
 * them in mayfly-workshop. */
#ifndef IO_WORKSHOP_H
#define IO_WORKSHOP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum {
	WORKSHOP_WORDS_MAX = 512,     /* arguments of mayfly-workshop, the program's among them */
	WORKSHOP_VARIABLES_MAX = 256, /* of the program's environment */
};

/* What a program needs. Lists end with NULL, and may be NULL. Paths are absolute. */
struct io_workshop {
	const char *user; /* "nobody", "reader" or "root" */
	bool network;
	const char *const *read, *const *copy, *const *write;
	/* Variables that it gets of this process's, beside those that say where programs, homes and
	 * proxies are and what language is spoken. A name that ends with '_' is a beginning. A
	 * variable that names a file is given the file, too. */
	const char *const *variables;
};

/* A program's arguments and environment. */
struct workshop_words {
	const char *argv[WORKSHOP_WORDS_MAX + 1], *env[WORKSHOP_VARIABLES_MAX + 1];
	unsigned argc, envc;
	char *owned[WORKSHOP_WORDS_MAX];
	unsigned owned_count;
};

/* Whether programs run in workshops: not with --jail=off. */
bool workshop_is_used(void);

/* Fills ret for program (a path) with argv and env: on top of what it gets of this process's.
 * Releases nothing of argv and env, which stay borrowed. ERROR_HOST where there can be no jail. */
int workshop_wrap(const struct io_workshop *w, const char *program, const char *const *argv,
	const char *const *env, struct workshop_words *ret, struct error *e);

void workshop_words_done(struct workshop_words *w);

#endif
