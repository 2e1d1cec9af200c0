/* Patterns of paths, with the rules of Go's path/filepath, which docker uses: `*` and `?` (not for
 * `/`), `[a-c]` and `[^a-c]`, and a backslash before a plain character. .dockerignore also has `**`
 * for any number of folders. */
#ifndef DOCKERFILE_PATTERN_H
#define DOCKERFILE_PATTERN_H

#include <stdbool.h>

enum { PATTERN_MAX = 1024 };

/* Whether a pattern is valid: brackets are closed, a character follows each backslash, and it is
 * not longer than PATTERN_MAX. */
bool pattern_valid(const char *pattern);

/* Whether a path matches. Both are relative, without `.` components. Takes time proportional to the
 * product of their lengths. An invalid pattern matches nothing. */
bool pattern_match(const char *pattern, const char *path);

/* The same with `**`. Also true if a folder above the path matches. */
bool pattern_match_folders(const char *pattern, const char *path);

/* Whether the pattern has plain characters only. */
bool pattern_is_plain(const char *pattern);

#endif
