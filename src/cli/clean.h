/* Cleans text from guests, files and servers for a terminal. Each byte of a character that could
 * control the terminal becomes '?'. These are C0 (which has escape), delete, and C1 in UTF-8. */
#ifndef CLI_CLEAN_H
#define CLI_CLEAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Cleans a text in place. keep: control characters that stay, such as "\n"; "" for none. */
void clean_text(char *text, const char *keep);

/* The state of a stream that is written in parts. It begins as {0}. */
struct clean_stream {
	bool held; /* the last byte may begin a C1 */
};

/* Writes a part, cleaned. Line feeds and tabs stay, and a carriage return becomes a line feed. A
 * last byte that could begin a C1 is written with the next part. */
void clean_write(struct clean_stream *s, FILE *to, const void *data, size_t n);

/* Prints a cleaned line to standard error. Line feeds and tabs stay. */
void clean_print_error(const char *prefix, const char *text);

#endif
