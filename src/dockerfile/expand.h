/* Expands variables in words of a Dockerfile and removes quotes, as docker does: $a ${a} ${a:-b}
 * ${a-b} ${a:+b} ${a+b} ${a:?b} ${a?b}. The word b may have variables, too. */
#ifndef DOCKERFILE_EXPAND_H
#define DOCKERFILE_EXPAND_H

#include "base/error.h"

enum {
	EXPAND_BYTES_MAX = 128 * 1024, /* of a word */
	EXPAND_TEXT_MAX = 2 << 20,     /* of a text: as large as a Dockerfile, and room for
				        * variables */
	EXPAND_DEPTH_MAX = 16,	       /* of ${...} inside ${...} */
};

struct expand_scope {
	const char *(*get)(void *opaque, const char *name); /* NULL: not set */
	void *opaque;
	char escape;
};

/* *ret is malloc'ed. Fails with ERROR_USAGE or ERROR_LIMIT. */
int expand_word(const struct expand_scope *s, const char *word, char **ret, struct error *e);

/* The same for the text of a heredoc, in which quotes are plain characters. */
int expand_text(const struct expand_scope *s, const char *text, char **ret, struct error *e);

#endif
