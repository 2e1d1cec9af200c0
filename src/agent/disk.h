/* Grows the file system that holds the guest's writable data. */
#ifndef AGENT_DISK_H
#define AGENT_DISK_H

#include <stdint.h>

/* Sets the file system: fd is a directory on it, `device` the name of its disk in /sys/block
 * ("vda"). */
void disk_set(int fd, const char *device);
int disk_fd(void); /* -1 when there is none */

/* Waits at most DISK_WAIT_MS until the device has `bytes`, then grows ext4 to that size. Blocks. 0,
 * -EOPNOTSUPP (no such disk), -ETIMEDOUT, or another -errno. */
enum { DISK_WAIT_MS = 3000 };
int disk_grow(uint64_t bytes);

/* Tells the disk which blocks of the root file system are free. 0 or -errno. May take seconds. */
int disk_trim(void);

#endif
