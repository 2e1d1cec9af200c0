/* Images in one tar archive: what `docker save` writes, or an OCI layout. mayfly-unpack reads the
 * archive in its jail. Its files become blobs of the store, by their digests. */
#ifndef OCI_ARCHIVE_H
#define OCI_ARCHIVE_H

#include "image/unpack.h"
#include "oci/blobs.h"
#include "oci/image.h"

enum { OCI_ARCHIVE_FILES_MAX = 4096 };

/* name: a tag of `docker save` ("repository:tag"), or NULL for the only image. An uncompressed
 * layer must have the digest that the configuration gives for it. A compressed layer cannot be
 * checked, because the configuration has only digests of uncompressed layers. */
int oci_archive_load_docker(const char *file, const char *name, const struct oci_blobs *b,
	unpack_fn fn, struct oci_image *ret, struct error *e);

/* name: as for oci_layout_load. */
int oci_archive_load_layout(const char *file, const char *name, const struct oci_blobs *b,
	unpack_fn fn, struct oci_image *ret, struct error *e);

#endif
