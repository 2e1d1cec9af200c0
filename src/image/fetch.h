/* The distribution's kernel package: downloaded with apt, unpacked without being installed. */
#ifndef IMAGE_FETCH_H
#define IMAGE_FETCH_H

#include "base/error.h"
#include "image/progress.h"

/* Downloads the cloud kernel that apt knows (linux-image-cloud-amd64) into the directory `path`
 * and returns the package file's malloc'ed path. ERROR_HOST says what to provide instead when there
 * is no apt or it does not know the package. */
int fetch_kernel_package(
	const char *path, const struct progress *p, char **ret_deb, struct error *e);

/* Unpacks a linux-image .deb (hostile input) into the directory dirfd: vmlinuz, config, and
 * modules/ with every module file and modules.builtin, flat. Nothing else is written. */
int fetch_unpack_deb(const char *deb, int dirfd, struct error *e);

#endif
