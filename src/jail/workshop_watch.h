/* Waits for the first process of a workshop, and kills it if the files that it may write become too
 * large. It measures them again and again, and uses at most a twentieth of a CPU for that. So a
 * program can exceed the limit by what it writes between two measurements. */
#ifndef JAIL_WORKSHOP_WATCH_H
#define JAIL_WORKSHOP_WATCH_H

#include "jail/workshop_spec.h"

/* Sets *status as waitpid(2) does. Returns 0 or -errno: -EFBIG (too many bytes), -E2BIG (too many
 * files or too deep directories), -EACCES (a directory that cannot be read). The process has ended
 * in any case. */
int workshop_watch(const struct workshop *w, pid_t pid, int *status);

#endif
