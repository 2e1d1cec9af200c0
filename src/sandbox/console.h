/* The boot log in a sandbox's directory (console.log, written by the VMM): what a guest said last.
 * Its bytes are the guest's: everything unprintable is replaced before anyone sees it. */
#ifndef DAEMON_CONSOLE_H
#define DAEMON_CONSOLE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

enum { CONSOLE_TAIL_MAX = 16 * 1024 };

/* The end of the log, malloc'ed; NULL when there is none. */
char *console_tail(int dirfd);

/* The guest kernel's own word for its end, as ERROR_SANDBOX; false when it did not panic. */
bool console_find_panic(int dirfd, struct error *e);

/* Prints the last lines, indented; for people, after a failure. */
void console_print(int dirfd, unsigned lines, FILE *f);

#endif
