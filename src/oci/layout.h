/* Images in an OCI layout: a directory with index.json, oci-layout and blobs/sha256 (OCI image
 * specification, image-layout.md). Blobs are read where they are, and checked when they are
 * opened. */
#ifndef OCI_LAYOUT_H
#define OCI_LAYOUT_H

#include "oci/image.h"

/* name: the image's in the index (org.opencontainers.image.ref.name), or NULL for the only one.
 * digest_only: only the manifest's digest is wanted. */
int oci_layout_load(const char *directory, const char *name, bool digest_only,
	struct oci_image *ret, struct error *e);

#endif
