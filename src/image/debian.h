/* Root file systems from the Debian archive, through mmdebstrap. */
#ifndef IMAGE_DEBIAN_H
#define IMAGE_DEBIAN_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "image/recipe.h"
#include "image/rootfs.h"

/* Installs the recipe's packages and streams the result into f. The archive's address is this
 * host's own when the host runs the same suite (only its Debian sources are taken: those signed by
 * Debian's keyring); for another suite mmdebstrap's default. apt's proxy and certificate settings
 * of this host are used while building and do not end up in the image.
 *
 * tmp: absolute path of a directory for mmdebstrap's work, removed by the caller. Root, or a user
 * with subordinate ids (package uidmap, /etc/subuid). */
int debian_add(struct rootfs *f, const struct recipe *r, const char *tmp, const struct progress *p,
	struct error *e);

/* Picks Debian's own stanzas and lines for `suite` out of an apt sources file. deb822: of a
 * .sources file rather than a .list. Appends to out: 0 or -errno. */
int debian_filter_sources(const char *text, bool deb822, const char *suite, struct buf *out);

#endif
