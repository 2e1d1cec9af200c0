/* Text of guests, files and servers on its way to a terminal: characters that could command it are
 * replaced by '?', byte by byte. These are C0 (escape among them), delete, and C1 in UTF-8. */
#ifndef CLI_CLEAN_H
#define CLI_CLEAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* In place. keep: characters that stay, such as "\n"; "" for none. */
void clean_text(char *text, const char *keep);

/* A stream in parts, which begins as {0}. */
struct clean_stream {
	bool held; /* the first byte of what may be C1 */
};

/* Writes a part without anything of that, ends of lines and tabs excepted. A carriage return ends a
 * line. A last byte that could begin a C1 is written with the next part. */
void clean_write(struct clean_stream *s, FILE *to, const void *data, size_t n);

/* Prints a line to standard error without anything of that, line ends and tabs excepted. */
void clean_print_error(const char *prefix, const char *text);

#endif
