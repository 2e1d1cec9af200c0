/* ADD of a tar archive, plain or with gzip, bzip2, xz or zstd. Its content goes into a folder. A
 * jailed process reads the archive where it lies (image/unpack.h), so this host writes nothing of
 * it. Device files are left out. Of extended attributes those stay that COPY keeps. The image's
 * `ln` makes links. */
#ifndef BUILD_COPY_ARCHIVE_H
#define BUILD_COPY_ARCHIVE_H

#include "build/copy_file.h"

/* Whether the first n bytes look like an archive. The file need not be one. */
bool copy_is_archive(const uint8_t *p, size_t n);

/* Unpacks a file of the source. Returns 1, or 0 if it is no archive after all. */
int copy_archive(
	const struct copy *c, const struct files_entry *f, const char *to, struct error *e);

#endif
