/* The lines of a Dockerfile: parser directives, comments, continued lines, the text of heredocs.
 * As docker's own parser has it (BuildKit's frontend/dockerfile/parser). */
#ifndef BUILD_SOURCE_H
#define BUILD_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "build/arena.h"

enum {
	SOURCE_BYTES_MAX = 1 << 20,
	SOURCE_LINES_MAX = 20000,
	SOURCE_INSTRUCTION_MAX = 64 * 1024, /* of one instruction, without its heredocs */
};

struct source {
	struct arena *arena;
	const char *at, *end;
	unsigned line; /* the number of the line that was read last, from 1 */
	char escape;   /* '\\' or '`' */
};

/* Takes the directives at the head. The text must outlive the source. */
int source_open(struct source *s, struct arena *a, const char *text, size_t n, struct error *e);

/* The next instruction, without its line breaks, and the line where it begins. 1; 0: there is none;
 * -errno. */
int source_next(struct source *s, const char **ret, unsigned *ret_line, struct error *e);

/* The lines up to one that is `name` alone. strip_tabs: leading tabs are left out. */
int source_heredoc(
	struct source *s, const char *name, bool strip_tabs, const char **ret, struct error *e);

#endif
