/* Contents of root file systems: from a tar stream, a directory or busybox into a sink, with the
 * adjustments that every image gets, and a digest over all of it. Sources are hostile input. */
#ifndef IMAGE_ROOTFS_H
#define IMAGE_ROOTFS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "image/config.h"
#include "image/progress.h"
#include "image/tree.h"

enum { ROOTFS_DIGEST_BYTES = 32, ROOTFS_ENTRIES_MAX = 4 << 20 };

struct rootfs; /* one image being filled */

struct rootfs *rootfs_new(struct tree_sink *sink, const struct progress *p);
void rootfs_free(struct rootfs *f); /* NULL is fine */

/* Reads a tar stream (none, gzip, bzip2, xz or zstd compressed) from a callback: bytes, 0 at the
 * end, -errno with e filled. */
typedef ssize_t (*rootfs_read_fn)(void *opaque, void *buf, size_t n, struct error *e);
int rootfs_add_tar(struct rootfs *f, rootfs_read_fn read, void *opaque, struct error *e);
int rootfs_add_tar_file(struct rootfs *f, const char *path, struct error *e);

/* Adds what is below a directory, not crossing into other file systems. Everything belongs to root
 * in the image when `squash` (someone else than root owns the files on the host). */
int rootfs_add_directory(struct rootfs *f, const char *path, bool squash, struct error *e);

/* A tiny system around the host's static busybox. epoch: time of the files. */
int rootfs_add_busybox(struct rootfs *f, int64_t epoch, struct error *e);

/* Checks what an image must have (/bin/sh, /etc/passwd), creates the user of the settings when it
 * is missing, with sudo where there is sudo, and writes host name, hosts, resolver and locale. */
int rootfs_finalize(struct rootfs *f, const struct image_config *c, int64_t epoch, struct error *e);

/* SHA-256 over every entry added. */
int rootfs_digest(struct rootfs *f, uint8_t out[ROOTFS_DIGEST_BYTES], struct error *e);

/* Counted so far: entries, and bytes of regular files. */
void rootfs_counts(const struct rootfs *f, uint64_t *entries, uint64_t *bytes);

#endif
