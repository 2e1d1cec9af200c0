/* An image's layers and settings, into a root file system. */
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

/* Reads the names in all layers, and settles what the tree is. Call oci_import_done afterwards in
 * any case. */
int oci_import_plan(struct oci_import *i, const struct oci_image *image, unpack_fn read,
	const struct progress *p, struct error *e);

/* The size of a root disk, in MiB, that has room for the tree and as much again as people
 * expect. */
uint32_t oci_import_disk_mb(const struct oci_import *i);

/* Writes the tree. It reads the layers again. */
int oci_import_write(struct oci_import *i, struct tree_sink *to, struct error *e);

/* The same, and the settings: fills struct image_foreign of image/build.h. */
struct image_foreign oci_import_foreign(struct oci_import *i);

void oci_import_done(struct oci_import *i);

#endif
