/* The disk of a stage as a directory: `rootfs.ext4`, and on top of it the deltas `delta0`, `delta1`
 * and so on (vmm/disk.h), lowest first. Directories of later steps share these files by hard links.
 * The files never change, so a directory can be removed without harm to the others. */
#ifndef BUILD_LAYERS_H
#define BUILD_LAYERS_H

#include <stdint.h>

#include "base/error.h"
#include "image/image.h"
#include "sandbox/launch.h"

enum {
	LAYERS_DELTAS_MAX = SNAPSHOT_LAYERS_MAX, /* at that number they are merged */
	LAYERS_LOW_MAX = IMAGE_DELTAS_MAX - 1,	 /* but not the lowest ones */
};

/* Returns the number of deltas. */
unsigned layers_count(int fd);

/* Links all files of a directory into an empty one. */
int layers_link(int from_fd, int to_fd, struct error *e);

/* Links a file of another directory as the next delta. The file must not change any more. A delta
 * without content is left out. If there are LAYERS_DELTAS_MAX deltas, all but the lowest
 * LAYERS_LOW_MAX are merged. The files are synced, but not the directory. */
int layers_add(int from_fd, const char *name, int to_fd, struct error *e);

/* Returns the bytes on disk that layers_settle() may write at most, for the same `keep`. */
uint64_t layers_settle_bytes(int fd, unsigned keep);

/* Makes the files of an image in an empty directory: links the lowest `keep` deltas, at most
 * LAYERS_LOW_MAX, and merges all others into one. If the file system is clean, the merged delta
 * leaves out ext4's journal. The files are synced, but not the directory. */
int layers_settle(int from_fd, unsigned keep, int to_fd, struct error *e);

#endif
