/* Formats commands as people would type them. */
#ifndef CLI_QUOTE_H
#define CLI_QUOTE_H

enum { QUOTE_MAX = 4096 };

/* Joins words with blanks, quotes them for a shell where needed, and cuts at QUOTE_MAX. malloc'ed;
 * NULL when out of memory. */
char *quote_command(int argc, char **argv);

#endif
