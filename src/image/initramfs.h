/* Writes the first user space of a guest: a cpio archive ("newc", uncompressed) with the agent as
 * /init and the kernel modules that it loads.
 *
 *   /init                      the agent
 *   /etc/mayfly/modules        one absolute path per line, in load order
 *   /lib/modules/<name>.ko
 *   /dev /proc /sys /newroot   empty directories; /dev/console and /dev/null are nodes
 *
 * Entries have fixed times and a fixed order: the same input gives the same bytes. */
#ifndef IMAGE_INITRAMFS_H
#define IMAGE_INITRAMFS_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "image/modules.h"

/* Appends the archive to out. */
int initramfs_write(const void *agent, size_t agent_len, const struct modules *m, struct buf *out,
	struct error *e);

#endif
