/* Kernel modules: which files a guest needs, in the order in which they must be loaded.
 *
 * Dependencies come from the `depends=` entry in each module's own .modinfo section, so that no
 * modules.dep (which depmod writes at installation only) is needed. Module files are hostile
 * input; compressed ones (.ko.xz, .ko.zst, .ko.gz) are unpacked. */
#ifndef IMAGE_MODULES_H
#define IMAGE_MODULES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
	MODULES_MAX = 64,	     /* in a closure */
	MODULES_FILES_MAX = 16384,   /* module files below a directory */
	MODULE_BYTES_MAX = 64 << 20, /* of one module, unpacked */
	MODULE_NAME_MAX = 56,	     /* the kernel's own limit */
};

struct module {
	char name[MODULE_NAME_MAX]; /* as the kernel says it: '-' is '_' */
	uint8_t *data;		    /* owned: the ELF file */
	size_t len;
};

struct modules {
	size_t count;
	struct module items[MODULES_MAX]; /* in load order */
};

/* The value of `key=` in the .modinfo section of an ELF file, borrowed and NUL-terminated; NULL
 * when there is none. */
const char *module_info(const void *elf, size_t len, const char *key);

/* Loads the named modules and all they depend on from the tree at `path` (like
 * /lib/modules/<release>). A name without a file counts as built into the kernel when it ends in
 * '?' or modules.builtin lists it, else it is ERROR_NOT_FOUND. */
int modules_load(const char *path, const char *const *names, struct modules *ret, struct error *e);
void modules_done(struct modules *m);

/* What a guest of ours needs, NULL-terminated, for modules_load. */
extern const char *const modules_of_guest[];

#endif
