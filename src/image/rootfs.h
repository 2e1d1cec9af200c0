/* Fills a root file system from a directory, from busybox, or from entries that come into a sink
 * (unpack.h). Makes the adjustments that every image gets, and computes a digest over all entries.
 * Sources are untrusted. */
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

struct rootfs; /* one image under construction */

/* epoch: modification time of generated files, Unix time in seconds. NULL when out of memory. */
struct rootfs *rootfs_new(struct tree_sink *sink, int64_t epoch, const struct progress *p);
void rootfs_free(struct rootfs *f); /* NULL is fine */

/* Takes entries of any source into the image. */
struct tree_sink *rootfs_sink(struct rootfs *f);
int64_t rootfs_epoch(const struct rootfs *f);

/* Adds everything below a directory, on the same file system. With `squash`, root owns all of it in
 * the image: use it when another user owns the files on the host. */
int rootfs_add_directory(struct rootfs *f, const char *path, bool squash, struct error *e);

/* Adds a tiny system around the host's static busybox. */
int rootfs_add_busybox(struct rootfs *f, struct error *e);

/* Adds a user without a home or a password to /etc/passwd, which is made when it is missing. */
int rootfs_add_login(
	struct rootfs *f, const char *name, uint32_t uid, uint32_t gid, struct error *e);

/* Checks what an image must have (/bin/sh, /etc/passwd). bare: the image may lack both; this
 * function then adds what users need. Creates the configured user when it is missing, with sudo
 * rights if there is sudo. Writes host name, hosts, resolver and locale. */
int rootfs_finalize(struct rootfs *f, const struct image_config *c, bool bare, struct error *e);

/* SHA-256 over all entries so far. */
int rootfs_digest(struct rootfs *f, uint8_t out[ROOTFS_DIGEST_BYTES], struct error *e);

/* What was added so far: entries, and bytes of regular files. */
void rootfs_counts(const struct rootfs *f, uint64_t *entries, uint64_t *bytes);

#endif
