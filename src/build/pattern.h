/* Patterns of paths: `*` and `?` (not `/`), `[a-c]` and `[^a-c]`, a backslash before a
 * character, and, for .dockerignore, `**` for any number of folders. As Go's path/filepath,
 * whose rules docker has. */
#ifndef BUILD_PATTERN_H
#define BUILD_PATTERN_H

#include <stdbool.h>

enum { PATTERN_MAX = 1024 };

/* Whether a pattern is whole: brackets are closed, something follows a backslash, not too long. */
bool pattern_valid(const char *pattern);

/* Both are relative paths without `.` components. Takes time with the product of their lengths. An
 * invalid pattern matches nothing. */
bool pattern_match(const char *pattern, const char *path);

/* The same with `**`, for the path or a folder above it. */
bool pattern_match_folders(const char *pattern, const char *path);

/* Whether there is anything but plain characters. */
bool pattern_is_plain(const char *pattern);

#endif
