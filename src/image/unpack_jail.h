/* What mayfly-unpack takes from itself before it reads a byte that others made. mayfly-launcher has
 * put it into an empty place already; this also holds with --jail=off. */
#ifndef IMAGE_UNPACK_JAIL_H
#define IMAGE_UNPACK_JAIL_H

#include "base/error.h"

/* For good: it ends with whoever started it, opens no path, makes no file or process, and may make
 * only the system calls of unpack_jail.c. Call it while there is one thread. */
int unpack_confine(struct error *e);

#endif
