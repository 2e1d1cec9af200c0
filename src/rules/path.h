/* Paths of requests, as rules match them.
 *
 * Servers may read one path in different ways. Percent-encoded letters equal the letters (RFC 3986
 * 6.2.2.2). Many servers resolve dots, merge slashes, decode an encoded slash, or drop what follows
 * a ';' in a segment. So a path is first written in one normal form. A path that servers can read
 * in two ways has no such form. */
#ifndef RULES_PATH_H
#define RULES_PATH_H

#include <stdbool.h>
#include <stddef.h>

enum { RULES_PATH_MAX = 8192, RULES_PATTERN_MAX = 256 };

/* Writes the normal form, with a NUL. The n bytes must end before a '?'. Returns 0, or -EINVAL if
 * the path can be read in two ways or is longer than RULES_PATH_MAX. */
int path_clean(const char *path, size_t n, char out[RULES_PATH_MAX + 1]);

/* Whether s is a pattern that a path in normal form can match. It must be ASCII, and
 * percent-encoded only where path_clean() keeps the encoding, as in "%C3%A9". */
bool path_is_pattern(const char *s);

/* Whether a path matches. '*' stands for any text without a slash, "**" for any text. Takes at most
 * bytes(pattern) times bytes(path) steps. */
bool path_matches(const char *pattern, const char *path);

#endif
