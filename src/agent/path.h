/* Resolves paths in the host's requests. */
#ifndef AGENT_PATH_H
#define AGENT_PATH_H

#include "proto/agent_wire.h"

/* Makes an absolute path without ".", ".." and double slashes, by text alone. "~", "~/x" and
 * relative paths start at home. 0, -EINVAL ("~other"), -ENAMETOOLONG. */
int path_resolve(const char *path, const char *home, char out[AGENT_PATH_MAX + 1]);

/* Creates the missing parents of a resolved path, 0755, owned by uid and gid. 0 or -errno. */
int path_make_parents(const char *path, unsigned uid, unsigned gid);

#endif
