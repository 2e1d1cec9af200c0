/* Text of guests, files and servers on its way to a terminal: characters that could command it are
 * replaced by '?', byte by byte. These are C0 (escape among them), delete, and C1 in UTF-8. */
#ifndef CLI_CLEAN_H
#define CLI_CLEAN_H

/* In place. keep: characters that stay, such as "\n"; "" for none. */
void clean_text(char *text, const char *keep);
/* Prints a line to standard error without anything of that, line ends excepted. */
void clean_print_error(const char *prefix, const char *text);

#endif
