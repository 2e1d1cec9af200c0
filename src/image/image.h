/* The store of built root file systems: images/<name>/{rootfs.ext4 | rootfs.erofs, image.json}.
 *
 * An ext4 image may have deltas (vmm/disk.h) over its file, lowest first. So images that were made
 * of one base share the base's file, and each has only what was changed. */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "image/config.h"
#include "image/home.h"

enum image_kind { IMAGE_EXT4, IMAGE_EROFS };

enum { IMAGE_DELTAS_MAX = 4, IMAGE_DELTA_NAME_BYTES = 16 };

struct image {
	char *name;   /* owned strings */
	char *source; /* "debian", "busybox", "tar", "directory" */
	char *digest; /* SHA-256 of the content, hexadecimal */
	enum image_kind kind;
	uint64_t created_s;
	uint64_t content_bytes, entries; /* size of the content */
	unsigned deltas;		 /* over the image's file, at most IMAGE_DELTAS_MAX */
	struct image_config config;
};

const char *image_kind_name(enum image_kind kind); /* "ext4", "erofs" */
const char *image_file_name(enum image_kind kind); /* "rootfs.ext4", "rootfs.erofs" */
void image_delta_name(unsigned number, char out[IMAGE_DELTA_NAME_BYTES]); /* "delta0" */

/* Bytes on the host's disk that an image's file and deltas in a directory take. */
uint64_t image_disk_bytes(int dirfd, enum image_kind kind, unsigned deltas);

/* The number of deltas as a member of a description. It is left out of one without deltas, which
 * older versions can read. Reading: 0, or -EINVAL when there are too many, or any over EROFS. */
int image_deltas_to_json(unsigned deltas, json_t *o);
int image_deltas_from_json(const json_t *o, enum image_kind kind, unsigned *ret);

/* ERROR_NOT_FOUND, or ERROR_BAD_IMAGE when image.json is damaged. */
int image_load(const struct home *h, const char *name, struct image *ret, struct error *e);
int image_save(int dirfd, const struct image *m, struct error *e);
void image_done(struct image *m);

#endif
