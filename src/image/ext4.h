/* ext4 images, written by libext2fs in this process: from a stream of files straight into the
 * image, with the owners and modes they say, without root and without anything being unpacked on
 * the host. The image is made by mke2fs with every setting given here, whatever the host's
 * mke2fs.conf says, and is sparse. */
#ifndef IMAGE_EXT4_H
#define IMAGE_EXT4_H

#include <stdint.h>

#include "base/error.h"
#include "image/tree.h"

enum { EXT4_BLOCK_BYTES = 4096, EXT4_JOURNAL_MIB = 16, EXT4_GROW_GIB = 64 };

#define EXT4_BYTES_MIN (UINT64_C(64) << 20)
#define EXT4_BYTES_MAX (UINT64_C(16) << 40)

struct ext4_image;

/* Makes the image file at `path` (which must not exist) with room for `bytes`, and opens it.
 * It can be grown in use up to EXT4_GROW_GIB or twice its size. epoch: the time of creation that it
 * names. */
int ext4_create(
	const char *path, uint64_t bytes, int64_t epoch, struct ext4_image **ret, struct error *e);

/* What to add to; valid until the image is closed. */
struct tree_sink *ext4_sink(struct ext4_image *x);

/* Writes everything out, durably, with this UUID. The image is freed in any case. */
int ext4_finish(struct ext4_image *x, const uint8_t uuid[16], struct error *e);

/* Frees without finishing; NULL is fine. The file is left to the caller. */
void ext4_abandon(struct ext4_image *x);

#endif
