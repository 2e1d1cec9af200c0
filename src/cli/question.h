/* What a person is asked about an approval (docs/consent.md), and the key that answers, for verbs
 * that ask on a terminal. */
#ifndef CLI_QUESTION_H
#define CLI_QUESTION_H

#include <jansson.h>

#include "base/buf.h"

enum { QUESTION_LINE_MAX = 8192 };

/* Appends what it is about to a line: "POST shop.example:443/orders by curl rule pay body ...".
 * Most of it is a guest's words, so it must be cleaned (clean.h). 0 or -errno. */
int question_describe(const json_t *approval, struct buf *line);

/* What a person is told before it may allow an approval that has `unseen`. */
#define QUESTION_UNSEEN "not all of it is shown, or much of it is hidden."

/* Waits 0.3 s for the question to be read, and drops keys that were pressed before. */
void question_drop_keys(int terminal_fd);

/* The key of `keys` that was pressed, or 0. ^C and ^D are 'q'. */
char question_key(char pressed, const char *keys);

#endif
