/* .dockerignore: files of the build's directory that no step sees, as docker documents it. Each
 * line is a pattern. `#` in the first column begins a comment. `!` includes files again. The last
 * pattern that matches decides. A pattern that matches a folder also matches what is in it. */
#ifndef DOCKERFILE_IGNORE_H
#define DOCKERFILE_IGNORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "dockerfile/arena.h"

enum { IGNORE_BYTES_MAX = 1 << 20, IGNORE_PATTERNS_MAX = 4096 };

struct ignore_pattern {
	const char *text; /* a clean relative path */
	bool again;	  /* ! */
};

struct ignore {
	struct arena arena;
	struct ignore_pattern *items;
	size_t count;
	bool any_again;
};

/* ERROR_USAGE names the line. Call ignore_done in any case. */
int ignore_parse(const char *text, size_t n, struct ignore *ret, struct error *e);
void ignore_done(struct ignore *g);

/* Whether a path is left out, itself or by a folder above it. The path is relative and clean (no
 * `.`, `..` or double slash). */
bool ignore_excludes(const struct ignore *g, const char *path);

#endif
