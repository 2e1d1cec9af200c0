/* Builds root file system images for the command line. Kernels: see kernel_store.h. */
#ifndef IMAGE_BUILD_H
#define IMAGE_BUILD_H

#include "base/error.h"
#include "image/home.h"
#include "image/image.h"
#include "image/kernel_store.h"
#include "image/progress.h"
#include "image/recipe.h"
#include "image/rootfs.h"

enum { ROOTFS_SCRATCH_MB = 1024 }; /* writable layer over an EROFS image */

/* A source of files that another room provides, as oci/import.h does. Its images may lack
 * everything, even a shell. */
struct image_foreign {
	const char *source; /* for image.json */
	/* Fills the root file system, and may change the settings. 0 or -errno with e filled. */
	int (*fill)(void *opaque, struct rootfs *f, struct image_config *config, struct error *e);
	void *opaque;
};

struct image_build_options {
	const struct home *home;
	const struct recipe *recipe; /* name, source, settings */
	enum image_kind kind;
	const struct image_foreign *foreign; /* in place of the recipe's source, or NULL */
};

/* Makes images/<recipe's name>. An older image stays until the new one is complete. With
 * IMAGE_EROFS it also makes scratch.ext4, an empty file system for an overlay's upper layer.
 * Blocking; takes minutes for Debian. A failed build leaves nothing behind. The next build removes
 * what a killed one left. */
int image_build(const struct image_build_options *o, const struct progress *p, struct error *e);

#endif
