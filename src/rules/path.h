/* Paths of requests, as rules match them.
 *
 * A server may read a path in another way than it is written: percent-encoded letters are the
 * letters (RFC 3986 6.2.2.2), and many resolve dots, merge slashes, take an encoded slash for
 * one, or drop what follows a ';' in a segment. So a path is first brought into one form; one
 * that can be read in two ways has none. */
#ifndef RULES_PATH_H
#define RULES_PATH_H

#include <stdbool.h>
#include <stddef.h>

enum { RULES_PATH_MAX = 8192, RULES_PATTERN_MAX = 256 };

/* Writes the form in which rules match it, ended by a NUL. n ends at a '?'. -EINVAL: it can be read
 * in two ways, or is longer than RULES_PATH_MAX. */
int path_clean(const char *path, size_t n, char out[RULES_PATH_MAX + 1]);

/* Whether it is a pattern that some path can match: of ASCII, encoded only where path_clean leaves
 * letters so, as in "%C3%A9". */
bool path_is_pattern(const char *s);

/* '*' stands for any text without a slash, "**" for any text. Takes bytes(pattern) times
 * bytes(path) at most. */
bool path_matches(const char *pattern, const char *path);

#endif
