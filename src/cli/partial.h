/* A local file that appears under its name only when it is complete. Until then it has another name
 * in the same directory, and is removed whatever ends this program, but for SIGKILL. One at a time.
 */
#ifndef CLI_PARTIAL_H
#define CLI_PARTIAL_H

#include <sys/types.h>

#include "base/error.h"

/* Opens one for `name` in dirfd (AT_FDCWD: a path). The descriptor or -errno. */
int partial_open(int dirfd, const char *name, struct error *e);
/* Gives it its mode and its name, replacing a file of that name. Closes. */
int partial_commit(mode_t mode, struct error *e);
/* Removes it; without one nothing happens. */
void partial_drop(void);

#endif
