/* Imports an image, its layers and settings, into a root file system. */
#ifndef OCI_IMPORT_H
#define OCI_IMPORT_H

#include "base/buf.h"
#include "image/build.h"
#include "image/unpack.h"
#include "oci/image.h"
#include "oci/merge.h"

enum { OCI_NOTES_MAX = 4096 };

struct oci_import {
	const struct oci_image *image; /* borrowed, as all here is */
	const struct progress *progress;
	unpack_fn unpack;
	struct oci_merge *merge; /* owned: what oci_import_plan made */
	struct buf notes;	 /* lines for people: what was left out or changed; owned */
};

/* Reads the names in all layers and computes the resulting tree. Call oci_import_done afterwards,
 * also on failure. */
int oci_import_plan(struct oci_import *i, const struct oci_image *image, unpack_fn read,
	const struct progress *p, struct error *e);

/* A size for the root disk, in MiB: room for the tree, and free space besides. */
uint32_t oci_import_disk_mb(const struct oci_import *i);

/* Bytes of disk that the tree takes, at most. */
uint64_t oci_import_bytes(const struct oci_import *i);

/* Writes the tree. It reads the layers again. */
int oci_import_write(struct oci_import *i, struct tree_sink *to, struct error *e);

/* A source for image/build.h that writes the tree and takes over the settings. */
struct image_foreign oci_import_foreign(struct oci_import *i);

void oci_import_done(struct oci_import *i);

#endif
