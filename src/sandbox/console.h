/* Reads the boot log in a sandbox's directory (console.log, written by the VMM): the guest's last
 * words. They are the guest's bytes, so everything unprintable is replaced before anyone sees
 * it. */
#ifndef SANDBOX_CONSOLE_H
#define SANDBOX_CONSOLE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

enum { CONSOLE_TAIL_MAX = 16 * 1024 };

/* Returns the end of the log, malloc'ed; NULL when there is none. */
char *console_tail(int dirfd);

/* Finds the guest kernel's own reason for its end, as ERROR_SANDBOX. False when it did not
 * panic. */
bool console_find_panic(int dirfd, struct error *e);

/* Prints the last lines, indented. For people, after a failure. */
void console_print(int dirfd, unsigned lines, FILE *f);

#endif
