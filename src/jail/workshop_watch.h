/* Waits for the first process of a workshop, and ends it if what it may write becomes too much. The
 * walk over that takes at most a twentieth of a CPU, so a program writes more than the limit by
 * what it writes between two walks; the host's disk is the last bound. */
#ifndef JAIL_WORKSHOP_WATCH_H
#define JAIL_WORKSHOP_WATCH_H

#include "jail/workshop_spec.h"

/* Sets *status as waitpid(2) does. 0 or -errno: -EFBIG for too many bytes, -E2BIG for too many
 * files or too deep directories, -EACCES for a directory that hides its content; the process is
 * over in any case. */
int workshop_watch(const struct workshop *w, pid_t pid, int *status);

#endif
