/* Makes signals available to poll(), for a process that is joined to a command in a sandbox. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stddef.h>

#include "base/error.h"

/* Blocks these signals permanently and ignores SIGPIPE (sinks see EPIPE). Returns a descriptor that
 * reports the signals; the caller owns it. */
int signals_open(const int *signals, size_t count, int *ret_fd, struct error *e);
/* The next signal, or 0 if there is none. Does not block. */
int signals_read(int fd);

#endif
