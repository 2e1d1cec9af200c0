/* Whether names and words speak of secrets, so that a person is not shown their values.
 *
 * A guest can choose what it writes, and would hide what it does not want a person to see. So a
 * name must be a secret's as a whole, without regard to case, underscores and hyphens: "token" and
 * "access_token" are, "author" and "max_tokens" are not. */
#ifndef INTERCEPT_SECRET_NAME_H
#define INTERCEPT_SECRET_NAME_H

#include <stdbool.h>
#include <stddef.h>

bool secret_name_is(const char *name, size_t n);

/* Of a header, where the last part of the name counts, too: X-Example-Token. */
bool secret_name_is_header(const char *name);

/* Whether a word begins as keys of well-known services do. cut: it may go on. */
bool secret_word_is_known(const char *word, size_t n, bool cut);
/* Or is one of these, or has as many letters and digits mixed as keys have. */
bool secret_word_is_likely(const char *word, size_t n, bool cut);

#endif
