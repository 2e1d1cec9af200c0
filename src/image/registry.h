/* What a recipe takes from npm and Maven repositories.
 *
 * This host's own clients fetch it, npm and mvn, with the user's settings: which registry or mirror
 * they ask, through which proxy and with which certificates, is theirs to know. No script of a
 * package runs here. Nothing stands in for what cannot be fetched: the build fails, and the error
 * has the command that failed, its reason and what to provide. */
#ifndef IMAGE_REGISTRY_H
#define IMAGE_REGISTRY_H

#include "base/error.h"
#include "image/progress.h"
#include "image/recipe.h"

enum {
	REGISTRY_FILES_MAX = 100000,  /* of an archive, more are refused */
	REGISTRY_BYTES_MAX = 1 << 30, /* of its content */
	REGISTRY_REASON_MAX = 200,    /* of a client's words in an error */
	REGISTRY_TIMEOUT_S = 3600,    /* of one client */
};

/* Fetches into tmp, which exists: npm packages to npm/node_modules, what the recipe wants of its
 * i-th Maven artifact to maven/<i>/tree. Blocking. ERROR_HOST when a client is missing or fails,
 * ERROR_BAD_IMAGE for an archive that is damaged or lacks the folder, ERROR_NO_SPACE. */
int registry_fetch(
	const struct recipe *r, const char *tmp, const struct progress *p, struct error *e);

/* Unpacks the regular files below `folder` of an archive (jar, zip or tar) into the directory `to`,
 * which is made. Links and other entries are left out, a path that leads out of the archive is
 * refused. */
int registry_unpack(const char *archive, const char *folder, const char *to, struct error *e);

/* The words of a client's output that tell why it failed, at most REGISTRY_REASON_MAX bytes. */
void registry_reason(const char *output, char out[REGISTRY_REASON_MAX]);

#endif
