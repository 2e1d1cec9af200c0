/* Builds root file system images: the entry point of the command line. Kernels: kernel_store.h. */
#ifndef IMAGE_BUILD_H
#define IMAGE_BUILD_H

#include "base/error.h"
#include "image/home.h"
#include "image/image.h"
#include "image/kernel_store.h"
#include "image/progress.h"
#include "image/recipe.h"

enum { ROOTFS_SCRATCH_MB = 1024 }; /* writable layer over an EROFS image */

struct image_build_options {
	const struct home *home;
	const struct recipe *recipe; /* name, source, settings */
	enum image_kind kind;
};

/* Makes images/<recipe's name>, replacing an older one once it is complete. With IMAGE_EROFS there
 * is also scratch.ext4, an empty file system for an overlay's upper layer. Blocking, minutes for
 * Debian. Nothing is left behind by a failure, and by a kill only until the next build. */
int image_build(const struct image_build_options *o, const struct progress *p, struct error *e);

#endif
