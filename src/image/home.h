/* The state directory: everything that Mayfly keeps lives below it.
 *
 *   blobs/<SHA-256>      parts of OCI images (oci/blobs.h)
 *   kernels/<release>/   vmlinux, config, modules/, initrd-<hash>.cpio
 *   images/<name>/       rootfs.ext4 or rootfs.erofs, image.json
 *   templates/<name>/    template.json, rootfs.*, snapshots/
 *   snapshots/<id>/      snapshots of sandboxes (sandbox/stack.h)
 *   paused/<sandbox>/    states of paused sandboxes, likewise
 *   aside/<...>/         states that no database knows (fleet/aside.h)
 *   steps/[<key id>.]<SHA-256>/  what steps of builds made (build/step_cache.h)
 *   uploads/             files that clients upload for builds (catalog/uploads.h)
 *   sandboxes/<id>/      running sandboxes (sandbox/sandbox_dir.h)
 *   mayfly.db            the daemon's database (store/store.h)
 *
 * It is $MAYFLY_HOME, else /var/lib/mayfly for root, else $XDG_DATA_HOME/mayfly, else
 * ~/.local/share/mayfly. Directories have mode 0700, because memory images hold secrets. struct
 * home opens the directories of enum home_area; the other modules open theirs. */
#ifndef IMAGE_HOME_H
#define IMAGE_HOME_H

#include "base/error.h"

enum home_area {
	HOME_KERNELS,
	HOME_IMAGES,
	HOME_TEMPLATES,
	HOME_SNAPSHOTS,
	HOME_PAUSED,
	HOME_ASIDE,
	HOME_STEPS,
	HOME_AREAS_,
};

struct home {
	char *path; /* owned, absolute */
	int fd;	    /* the directory itself */
	int area_fd[HOME_AREAS_];
};

#define HOME_INIT                                                                                  \
	{                                                                                          \
		.fd = -1, .area_fd = { -1, -1, -1, -1, -1, -1, -1 }                                \
	}

/* The default path, malloc'ed; does not touch the directory. NULL when out of memory, or when no
 * variable gives a path. */
char *home_default_path(void);

/* Opens the state directory, and makes it when missing. path NULL is the default one. */
int home_open(const char *path, struct home *ret, struct error *e);
void home_close(struct home *h);

/* "kernels", "images", ... */
const char *home_area_name(enum home_area area);

/* Absolute path of area/name[/file], malloc'ed; for programs that need paths. */
char *home_path(const struct home *h, enum home_area area, const char *name, const char *file);

#endif
