/* Secrets of a build, which `--secret` names. They are read once. Steps that ask for them get them.
 * They never become part of a digest. */
#ifndef BUILD_SECRETS_H
#define BUILD_SECRETS_H

#include <stddef.h>

#include "base/error.h"
#include "base/options.h"

enum { SECRETS_MAX = 64, SECRET_BYTES_MAX = 500 * 1024 };

struct build_secret {
	char *id; /* owned, like data, which ends with a NUL */
	char *data;
	size_t bytes;
};

struct build_secrets {
	struct build_secret items[SECRETS_MAX];
	size_t count;
};

/* Reads `id=NAME[,src=FILE|,env=VARIABLE][,type=file|env]`, as docker does. Without src and env it
 * takes the variable NAME, or else the file NAME. Fails with ERROR_USAGE; messages show no values.
 * Call build_secrets_done() in any case. */
int build_secrets_read(const struct option_list *words, struct build_secrets *ret, struct error *e);
void build_secrets_done(struct build_secrets *s); /* wipes them */

/* Returns the secret with that id, or NULL. s may be NULL. */
const struct build_secret *build_secrets_find(const struct build_secrets *s, const char *id);

#endif
