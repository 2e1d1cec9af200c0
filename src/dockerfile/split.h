/* Splits an instruction into words. Quotes and escape characters stay in the words; expand.h
 * removes them. */
#ifndef DOCKERFILE_SPLIT_H
#define DOCKERFILE_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "dockerfile/arena.h"

enum { SPLIT_WORDS_MAX = 1024 };

struct words {
	const char **items; /* in the arena */
	size_t count;
};

/* Splits at blanks that are neither quoted nor escaped. All three return 0, -ENOMEM, or -E2BIG
 * beyond SPLIT_WORDS_MAX. */
int split_quoted(struct arena *a, const char *text, char escape, struct words *ret);

/* Splits at all blanks. */
int split_plain(struct arena *a, const char *text, struct words *ret);

/* Takes the words of a JSON array of strings. Returns -EINVAL if the text is anything else. */
int split_json(struct arena *a, const char *text, struct words *ret);

/* The mark of a heredoc: `<<NAME`, `<<-NAME` or `<<"NAME"`, perhaps with a number before it. */
struct heredoc_mark {
	const char *name;
	bool strip_tabs; /* <<- */
	bool expand;	 /* the name is not quoted */
};

/* Returns 1, 0 if the word is no mark, or -ENOMEM. */
int split_heredoc(struct arena *a, const char *word, char escape, struct heredoc_mark *ret);

#endif
