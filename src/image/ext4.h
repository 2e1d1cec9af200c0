/* Writes ext4 images with libext2fs, in this process. Files stream straight into the image with
 * their owners and modes. It needs no root, and nothing is unpacked on the host. mke2fs makes the
 * empty image with all settings given here, whatever the host's mke2fs.conf says. Images are
 * sparse. */
#ifndef IMAGE_EXT4_H
#define IMAGE_EXT4_H

#include <stdint.h>

#include "base/error.h"
#include "image/tree.h"

enum { EXT4_BLOCK_BYTES = 4096, EXT4_JOURNAL_MIB = 16, EXT4_GROW_GIB = 64 };

#define EXT4_BYTES_MIN (UINT64_C(64) << 20)
#define EXT4_BYTES_MAX (UINT64_C(16) << 40)

struct ext4_image;

/* Makes the image file at `path`, which must not exist, with space for `bytes`, and opens it. In
 * use it can grow to EXT4_GROW_GIB or twice its size. epoch: its time of creation. */
int ext4_create(
	const char *path, uint64_t bytes, int64_t epoch, struct ext4_image **ret, struct error *e);

/* The sink to add entries to; valid until the image is closed. */
struct tree_sink *ext4_sink(struct ext4_image *x);

/* Writes everything to disk, with this UUID. Frees the image in any case. */
int ext4_finish(struct ext4_image *x, const uint8_t uuid[16], struct error *e);

/* Frees without finishing. The file stays; the caller removes it. Accepts NULL. */
void ext4_abandon(struct ext4_image *x);

#endif
