/* The store of built root file systems: images/<name>/{rootfs.ext4 | rootfs.erofs, image.json}. */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H

#include <stdint.h>

#include "base/error.h"
#include "image/config.h"
#include "image/home.h"

enum image_kind { IMAGE_EXT4, IMAGE_EROFS };

struct image {
	char *name;   /* owned strings */
	char *source; /* "debian", "busybox", "tar", "directory" */
	char *digest; /* SHA-256 of the content, hexadecimal */
	enum image_kind kind;
	uint64_t created_s;
	uint64_t content_bytes, entries; /* size of the content */
	struct image_config config;
};

const char *image_kind_name(enum image_kind kind); /* "ext4", "erofs" */
const char *image_file_name(enum image_kind kind); /* "rootfs.ext4", "rootfs.erofs" */

/* ERROR_NOT_FOUND, or ERROR_BAD_IMAGE when image.json is damaged. */
int image_load(const struct home *h, const char *name, struct image *ret, struct error *e);
int image_save(int dirfd, const struct image *m, struct error *e);
void image_done(struct image *m);

#endif
