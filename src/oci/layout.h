/* Images in an OCI layout: a directory with index.json, oci-layout and blobs/sha256 (OCI image
 * specification, image-layout.md). Blobs are read where they are, and checked when they are
 * opened. */
#ifndef OCI_LAYOUT_H
#define OCI_LAYOUT_H

#include "oci/image.h"

/* Loads an image. name: its name in the index (org.opencontainers.image.ref.name); NULL: the index
 * has only one image. digest_only: find only the digest of the manifest. ERROR_NOT_FOUND or
 * ERROR_BAD_IMAGE. */
int oci_layout_load(const char *directory, const char *name, unpack_fn fn, bool digest_only,
	struct oci_image *ret, struct error *e);

#endif
