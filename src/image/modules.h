/* Finds the kernel modules that a guest needs, in the order in which it must load them.
 *
 * Dependencies come from `depends=` in the .modinfo section of each module. So modules.dep, which
 * depmod writes only at installation, is not needed. Module files are untrusted. Compressed ones
 * (.ko.xz, .ko.zst, .ko.gz) are unpacked. */
#ifndef IMAGE_MODULES_H
#define IMAGE_MODULES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/unpack.h"

enum {
	MODULES_MAX = 64,	   /* with dependencies */
	MODULES_FILES_MAX = 16384, /* module files below a directory */
	MODULE_NAME_MAX = 56,	   /* the kernel's own limit */
};

struct module {
	char name[MODULE_NAME_MAX]; /* the kernel's spelling: '-' is '_' */
	uint8_t *data;		    /* owned: the ELF file */
	size_t len;
};

struct modules {
	size_t count;
	struct module items[MODULES_MAX]; /* in load order */
};

/* Loads the named modules, and all they depend on, from the tree at `path` (like
 * /lib/modules/<release>). A name without a file counts as built in when it ends in '?' or when
 * modules.builtin lists it. Otherwise it is ERROR_NOT_FOUND. fn reads each file: unpack() in a
 * jail. */
int modules_load(unpack_fn fn, const char *path, const char *const *names, struct modules *ret,
	struct error *e);

/* Loads the module files `NAME.ko` in dirfd that `list` names, one per line, in that order. This
 * program wrote these files, so their content is not parsed. ERROR_BAD_IMAGE if one is missing. */
int modules_load_listed(int dirfd, const char *list, struct modules *ret, struct error *e);
void modules_done(struct modules *m);

/* The modules that our guests need, NULL-terminated, for modules_load. */
extern const char *const modules_of_guest[];

#endif
