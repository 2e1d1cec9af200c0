/* Joins arguments to a line for a shell, and splits such a line again. So an image without a shell
 * can run a command that is stored as a line. */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include <stddef.h>

#include "base/buf.h"

enum { WORDS_MAX = 256 };

/* Appends an argument as one word, quoted where it needs that. 0, -ENOMEM or -EMSGSIZE. */
int words_quote(struct buf *out, const char *argument);

/* Appends arguments likewise, with a blank between two words. */
int words_join(struct buf *out, const char *const *arguments, size_t n);

/* Splits a line in place into at most `max` words. Returns their number. Understands single quotes
 * and backslashes; -EINVAL for anything else with a meaning to a shell. -E2BIG for more than `max`
 * words. */
int words_split(char *line, const char **words, size_t max);

#endif
