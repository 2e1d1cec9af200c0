/* An image, found and verified: its configuration and the files of its layers. */
#ifndef OCI_IMAGE_H
#define OCI_IMAGE_H

#include <stdbool.h>

#include "base/error.h"
#include "image/unpack.h"
#include "oci/document.h"

struct oci_image {
	struct oci_config config;
	char digest[OCI_DIGEST_MAX]; /* of its manifest; of its configuration where there is none */
	int layers[OCI_LAYERS_MAX];  /* descriptors for reading, from the bottom */
	size_t layer_count;
};

/* Where blobs come from: a directory, an archive, a registry. */
struct oci_supply {
	/* Opens a blob whose size and digest are what the descriptor says, for reading. 0 or
	 * -errno. */
	int (*open)(
		struct oci_supply *s, const struct oci_descriptor *d, int *ret_fd, struct error *e);
	unpack_fn unpack; /* reads documents */
	bool digest_only; /* the image's configuration and layers are not wanted */
};

/* Finds the image that a descriptor leads to: a manifest, or an index with one for linux/amd64. */
int oci_image_load(struct oci_supply *s, const struct oci_descriptor *root, struct oci_image *ret,
	struct error *e);

/* The entry of a layout's index.json: of this name, or the only one for NULL. */
int oci_index_choose(
	const struct oci_index *x, const char *name, struct oci_descriptor *ret, struct error *e);

void oci_image_done(struct oci_image *image);

#endif
