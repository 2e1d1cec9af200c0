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

enum {
	MODULES_MAX = 64,	     /* with dependencies */
	MODULES_FILES_MAX = 16384,   /* module files below a directory */
	MODULE_BYTES_MAX = 64 << 20, /* of one module, unpacked */
	MODULE_NAME_MAX = 56,	     /* the kernel's own limit */
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

/* The value of `key=` in the .modinfo section of an ELF file, borrowed and NUL-terminated; NULL
 * when there is none. */
const char *module_info(const void *elf, size_t len, const char *key);

/* Loads the named modules, and all they depend on, from the tree at `path` (like
 * /lib/modules/<release>). A name without a file counts as built in when it ends in '?' or when
 * modules.builtin lists it. Otherwise it is ERROR_NOT_FOUND. */
int modules_load(const char *path, const char *const *names, struct modules *ret, struct error *e);
void modules_done(struct modules *m);

/* The modules that our guests need, NULL-terminated, for modules_load. */
extern const char *const modules_of_guest[];

#endif
