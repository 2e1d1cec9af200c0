/* The file system that holds the guest's writable data, for growing it. */
#ifndef AGENT_DISK_H
#define AGENT_DISK_H

#include <stdint.h>

/* Remembers it: fd is a directory on it, device a name in /sys/block ("vda"). */
void disk_set(int fd, const char *device);
int disk_fd(void); /* -1 when there is none */

/* Waits (at most DISK_WAIT_MS) until the device has `bytes`, then grows ext4 to it. Blocks. 0,
 * -EOPNOTSUPP (no such disk), -ETIMEDOUT, -errno. */
enum { DISK_WAIT_MS = 3000 };
int disk_grow(uint64_t bytes);

#endif
