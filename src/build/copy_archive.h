/* ADD of an archive: a tar archive, plain or with gzip, bzip2, xz or zstd, whose content goes into
 * a folder. It is read in a jail (image/unpack.h). Device files are left out; links are made by
 * the image's `ln`. */
#ifndef BUILD_COPY_ARCHIVE_H
#define BUILD_COPY_ARCHIVE_H

#include "build/copy_file.h"

/* Whether a file begins as an archive does. Not all that do are one. */
bool copy_is_archive(const uint8_t *p, size_t n);

/* Unpacks a file of the source: 1, or 0 when it is no archive after all. */
int copy_archive(
	const struct copy *c, const struct files_entry *f, const char *to, struct error *e);

#endif
