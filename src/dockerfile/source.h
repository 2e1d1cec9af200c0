/* Reads the lines of a Dockerfile: parser directives, comments, continued lines, the text of
 * heredocs. It follows docker's own parser (BuildKit's frontend/dockerfile/parser). */
#ifndef DOCKERFILE_SOURCE_H
#define DOCKERFILE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "dockerfile/arena.h"

enum {
	SOURCE_BYTES_MAX = 1 << 20,
	SOURCE_LINES_MAX = 20000,
	SOURCE_INSTRUCTION_MAX = 64 * 1024, /* of one instruction, without its heredocs */
};

struct source {
	struct arena *arena;
	const char *at, *end;
	unsigned line; /* number of the last line that was read, from 1 */
	char escape;   /* '\\' or '`' */
};

/* Begins to read, with the directives at the head. The text must outlive the source. */
int source_open(struct source *s, struct arena *a, const char *text, size_t n, struct error *e);

/* Reads the next instruction, without line breaks, and the number of its first line. Returns 1, 0
 * at the end, or -errno. */
int source_next(struct source *s, const char **ret, unsigned *ret_line, struct error *e);

/* Reads the lines up to one that is just `name`. strip_tabs: leaves leading tabs out. */
int source_heredoc(
	struct source *s, const char *name, bool strip_tabs, const char **ret, struct error *e);

#endif
