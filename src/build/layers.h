/* The disk of a stage as a directory: `rootfs.ext4`, and on top of it `delta0`, `delta1`, ...
 * (vmm/disk.h), lowest first. All files are hard links, shared with the directories below, and
 * never change. So each directory can be removed without the others. */
#ifndef BUILD_LAYERS_H
#define BUILD_LAYERS_H

#include "base/error.h"
#include "sandbox/launch.h"

enum {
	LAYERS_DELTAS_MAX = SNAPSHOT_LAYERS_MAX, /* then they are merged */
	LAYERS_NAME_BYTES = 16,
};

void layers_name(unsigned number, char out[LAYERS_NAME_BYTES]); /* "delta0" */

/* How many deltas there are. */
unsigned layers_count(int fd);

/* Gives an empty directory all that another one has. */
int layers_link(int from_fd, int to_fd, struct error *e);

/* Adds a delta that does not change any more: a file of another directory, which is linked. One
 * without content is left out. The deltas become one when they are LAYERS_DELTAS_MAX. All but the
 * directory is durable then. */
int layers_add(int from_fd, const char *name, int to_fd, struct error *e);

/* Writes what the disk has into an empty file, without deltas. */
int layers_write_image(int fd, int out_fd, struct error *e);

#endif
