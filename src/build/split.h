/* Words of an instruction. Quotes and escape characters stay in the words: expand.h removes
 * them. */
#ifndef BUILD_SPLIT_H
#define BUILD_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "build/arena.h"

enum { SPLIT_WORDS_MAX = 1024 };

struct words {
	const char **items; /* of the arena */
	size_t count;
};

/* At blanks that are neither quoted nor escaped. 0, -ENOMEM, -E2BIG beyond SPLIT_WORDS_MAX. */
int split_quoted(struct arena *a, const char *text, char escape, struct words *ret);

/* At all blanks. */
int split_plain(struct arena *a, const char *text, struct words *ret);

/* The words of a JSON array of strings; -EINVAL when the text is anything else. */
int split_json(struct arena *a, const char *text, struct words *ret);

/* What stands for a heredoc: `<<NAME`, `<<-NAME`, `<<"NAME"`, with a number before it or not. */
struct heredoc_mark {
	const char *name;
	bool strip_tabs; /* <<- */
	bool expand;	 /* the name is not quoted */
};

/* 1, 0: the word is none, or -ENOMEM. */
int split_heredoc(struct arena *a, const char *word, char escape, struct heredoc_mark *ret);

#endif
