/* Fetches what a recipe takes from npm and Maven repositories.
 *
 * The host's own clients, npm and mvn, fetch it with the user's settings for registries, mirrors,
 * proxies and certificates. Each runs in a jail (io/workshop.h) that keeps the host's network, and
 * has copies of the user's settings, a directory to write and none of the user's caches. No script
 * of a package runs here. If something cannot be fetched, the build fails. The error has the failed
 * command, the reason, and what to provide. */
#ifndef IMAGE_REGISTRY_H
#define IMAGE_REGISTRY_H

#include "base/error.h"
#include "image/progress.h"
#include "image/recipe.h"
#include "image/unpack.h"

enum {
	REGISTRY_REASON_MAX = 200, /* of a client's output in an error */
	REGISTRY_TIMEOUT_S = 3600, /* for one run of a client */
};

/* Fetches into tmp, which exists. npm packages go to npm/node_modules; the wanted part of the i-th
 * Maven artifact goes to maven/<i>/tree. Blocking. ERROR_HOST when a client is missing or fails,
 * ERROR_BAD_IMAGE when an archive is damaged or lacks the folder, ERROR_NO_SPACE. */
int registry_fetch(
	const struct recipe *r, const char *tmp, const struct progress *p, struct error *e);

/* Unpacks the regular files below `folder` of an archive (jar, zip or tar) into the new directory
 * `to`. Skips links and other entries; refuses a path that leads out of the archive. fn reads the
 * archive: unpack() in a jail. */
int registry_unpack(
	unpack_fn fn, const char *archive, const char *folder, const char *to, struct error *e);

/* Copies the part of a client's output that tells why it failed, at most REGISTRY_REASON_MAX
 * bytes. */
void registry_reason(const char *output, char out[REGISTRY_REASON_MAX]);

#endif
