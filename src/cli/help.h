/* Prints --help from the tables. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "cli/cli.h"

/* path: the words that lead there, such as "mayfly template". */
void help_print_verbs(const struct cli_verb *const *verbs, const char *path, FILE *f);
void help_print_verb(const struct cli_verb *v, const char *path, FILE *f);

/* The part after the path in the first line: "[OPTION]... [--] COMMAND [ARG]...". */
void help_print_synopsis(const struct cli_verb *v, FILE *f);

#endif
