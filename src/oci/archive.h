/* Images in one file: what `docker save` writes, and an OCI layout as a tar archive. mayfly-unpack
 * reads it in its jail; its files become blobs of the store, by their digests. */
#ifndef OCI_ARCHIVE_H
#define OCI_ARCHIVE_H

#include "image/unpack.h"
#include "oci/blobs.h"
#include "oci/image.h"

enum { OCI_ARCHIVE_FILES_MAX = 4096 };

/* name: a tag of `docker save` ("repository:tag"), or NULL for the only image. Layers must be what
 * the configuration says of them, unless they are compressed: then it says nothing about the
 * file. */
int oci_archive_load_docker(const char *file, const char *name, const struct oci_blobs *b,
	unpack_fn fn, struct oci_image *ret, struct error *e);

/* name: as oci_layout_load. */
int oci_archive_load_layout(const char *file, const char *name, const struct oci_blobs *b,
	unpack_fn fn, struct oci_image *ret, struct error *e);

#endif
