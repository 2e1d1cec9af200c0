/* Paths of a Dockerfile or .dockerignore. */
#ifndef DOCKERFILE_PATH_H
#define DOCKERFILE_PATH_H

#include <stdbool.h>

enum { BUILD_PATH_MAX = 4096 }; /* with the NUL */

/* Makes a path, taken from the directory `base`, absolute and clean: without `.`, `..` and double
 * slashes. Only the text is looked at. `..` never leads above the top. Returns false if the result
 * is too long. */
bool path_resolve(const char *base, const char *path, char out[BUILD_PATH_MAX]);

#endif
