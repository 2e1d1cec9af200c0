/* A local file that gets its name only when it is complete. Until then it has another name in the
 * same directory. It is removed however this program ends, except by SIGKILL. One at a time. */
#ifndef CLI_PARTIAL_H
#define CLI_PARTIAL_H

#include <sys/types.h>

#include "base/error.h"

/* Opens one for `name` in dirfd (AT_FDCWD: a path). Returns the descriptor or -errno. */
int partial_open(int dirfd, const char *name, struct error *e);
/* Sets its mode, gives it its name (replacing a file of that name), and closes it. */
int partial_commit(mode_t mode, struct error *e);
/* Removes it. No-op if there is none. */
void partial_drop(void);

#endif
