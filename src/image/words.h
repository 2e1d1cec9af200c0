/* Commands as lines of shell words: how arguments become a line, and a plain line arguments again,
 * for images without a shell. */
#ifndef IMAGE_WORDS_H
#define IMAGE_WORDS_H

#include <stddef.h>

#include "base/buf.h"

enum { WORDS_MAX = 256 };

/* Appends an argument as one word, quoted where it needs that. 0, -ENOMEM or -EMSGSIZE. */
int words_quote(struct buf *out, const char *argument);

/* Appends arguments likewise, with a blank between two words. */
int words_join(struct buf *out, const char *const *arguments, size_t n);

/* Splits a line in place into at most `max` words. It may have single quotes and backslashes, and
 * nothing else that means something to a shell: -EINVAL. -E2BIG for more words. Returns how many
 * there are. */
int words_split(char *line, const char **words, size_t max);

#endif
