/* Reads the .modinfo section of a kernel module, in which the module describes itself. The file is
 * untrusted. */
#ifndef IMAGE_MODULE_INFO_H
#define IMAGE_MODULE_INFO_H

#include <stddef.h>

/* The value of `key=` in the .modinfo section of an ELF file, borrowed and NUL-terminated; NULL
 * when there is none. */
const char *module_info(const void *elf, size_t len, const char *key);

#endif
