/* Converts kernel image files from what distributions ship (bzImage) to what the VMM boots (ELF
 * vmlinux).
 *
 * Implements the setup header of the Linux x86 boot protocol (Documentation/arch/x86/boot.rst,
 * version 2.08 or later, for payload_offset and payload_length) and the payload formats of Linux
 * 6.1: LZ4 (legacy frame), gzip, bzip2, LZMA, xz, zstd, none. The file is untrusted. */
#ifndef IMAGE_KERNEL_H
#define IMAGE_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
	KERNEL_FILE_MAX = 256 << 20,  /* bytes read of a bzImage or vmlinux */
	KERNEL_IMAGE_MAX = 512 << 20, /* bytes of the uncompressed image */
	KERNEL_RELEASE_MAX = 64,      /* "6.1.0-49-cloud-amd64" and its NUL */
};

/* Finds the ELF image in a kernel file. *ret_image is malloc'ed. ERROR_BAD_IMAGE when the file is
 * not a 64-bit x86 kernel. */
int kernel_extract(
	const void *file, size_t len, uint8_t **ret_image, size_t *ret_len, struct error *e);

/* The kernel's release, from the setup header or from the banner in a vmlinux. It is a valid
 * directory name. -ENOENT when the file does not tell. */
int kernel_release(const void *file, size_t len, char out[KERNEL_RELEASE_MAX]);

#endif
