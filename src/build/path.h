/* Paths as they stand in a Dockerfile or .dockerignore. */
#ifndef BUILD_PATH_H
#define BUILD_PATH_H

#include <stdbool.h>

enum { BUILD_PATH_MAX = 4096 }; /* with the NUL */

/* Puts a path below a directory: absolute, without `.`, `..` and double slashes. `..` is resolved
 * in the text, and ends at the top. False when it is too long. */
bool path_resolve(const char *base, const char *path, char out[BUILD_PATH_MAX]);

#endif
