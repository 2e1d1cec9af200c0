/* The rights that mayfly-unpack gives up before it reads an untrusted byte. They also go with
 * --jail=off; with a jail, mayfly-launcher has put the process into an empty place before that. */
#ifndef IMAGE_UNPACK_JAIL_H
#define IMAGE_UNPACK_JAIL_H

#include "base/error.h"

/* From then on the process ends when its parent ends, cannot open paths or make files or processes,
 * and may only make the system calls listed in unpack_jail.c. This cannot be undone. Call it while
 * there is one thread. */
int unpack_confine(struct error *e);

#endif
