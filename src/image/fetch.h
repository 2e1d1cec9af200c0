/* Fetches the distribution's kernel package with apt, and unpacks it without installing it. */
#ifndef IMAGE_FETCH_H
#define IMAGE_FETCH_H

#include "base/error.h"
#include "image/progress.h"

/* Downloads the cloud kernel that apt knows (linux-image-cloud-amd64) into the directory `path`.
 * Returns the malloc'ed path of the package file. ERROR_HOST when apt is missing or does not know
 * the package; the message says what to provide instead. */
int fetch_kernel_package(
	const char *path, const struct progress *p, char **ret_deb, struct error *e);

/* Unpacks a linux-image .deb, which is untrusted, into the directory dirfd: vmlinuz, config, and
 * modules/ with modules.builtin and every module file, flat. Writes nothing else. */
int fetch_unpack_deb(const char *deb, int dirfd, struct error *e);

#endif
