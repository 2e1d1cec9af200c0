/* Signals as something to poll for, of a command that is joined to what runs in a sandbox. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stddef.h>

#include "base/error.h"

/* Blocks these signals for good, ignores SIGPIPE (sinks see EPIPE), and returns a descriptor that
 * tells them, the caller's. */
int signals_open(const int *signals, size_t count, int *ret_fd, struct error *e);
/* The next one, 0: none. Does not block. */
int signals_read(int fd);

#endif
