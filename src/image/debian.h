/* Makes root file systems from the Debian archive, through mmdebstrap. */
#ifndef IMAGE_DEBIAN_H
#define IMAGE_DEBIAN_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "image/recipe.h"
#include "image/rootfs.h"

/* Installs the recipe's packages and streams the result into f. When the host runs the same suite,
 * the build uses the archive's address from the host's apt sources, but only Debian's own (signed
 * by Debian's keyring). For another suite it uses mmdebstrap's default. The build also uses the
 * host's proxy and certificate settings for apt; they do not end up in the image.
 *
 * tmp: absolute path of a directory for mmdebstrap's work, removed by the caller. Needs root, or a
 * user with subordinate ids (package uidmap, /etc/subuid). */
int debian_add(struct rootfs *f, const struct recipe *r, const char *tmp, const struct progress *p,
	struct error *e);

/* Copies Debian's own stanzas or lines for `suite` from an apt sources file. deb822: it is a
 * .sources file, not a .list. Appends to out: 0 or -errno. */
int debian_filter_sources(const char *text, bool deb822, const char *suite, struct buf *out);

#endif
