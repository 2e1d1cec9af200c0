/* The sandbox's variables and their generation.
 *
 * The agent replaces a file (NAME=VALUE, each ended by a NUL) at every IDENTITY: when a sandbox is
 * made from a template, resumed or forked. So the file tells two things: the variables and, if it
 * is another file than before, that the sandbox has a new identity. Looking costs one stat. Without
 * a file there are no variables and the generation stays 0. */
#ifndef INTERPRETER_SANDBOX_ENV_H
#define INTERPRETER_SANDBOX_ENV_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum { SANDBOX_ENV_BYTES_MAX = 512 << 10, SANDBOX_ENV_COUNT_MAX = 2048 };

struct sandbox_env {
	const char *path; /* borrowed; NULL: none */
	uint64_t generation;
	struct stat seen;
	char *text;   /* owned */
	char **items; /* NAME=VALUE, NULL-terminated, pointing into text; owned */
	size_t count;
};

/* Reads the file again if it was replaced. A file that cannot be read counts as empty. */
void sandbox_env_refresh(struct sandbox_env *e);
void sandbox_env_done(struct sandbox_env *e);

/* Returns the value of a variable, or NULL. */
const char *sandbox_env_get(const struct sandbox_env *e, const char *name);

#endif
