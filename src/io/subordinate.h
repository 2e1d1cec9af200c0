/* The subordinate ids of the user who runs this process: numbers of the host that are the user's to
 * give to users in a namespace (subuid(5), subgid(5)). Without root, a workshop of mmdebstrap needs
 * them. */
#ifndef IO_SUBORDINATE_H
#define IO_SUBORDINATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/* The first of WORKSHOP_ROOT_IDS ids each. */
struct subordinate {
	uid_t uid;
	gid_t gid;
};

/* Reads /etc/subuid and /etc/subgid. ERROR_HOST if the user has no range there that is large
 * enough. */
int subordinate_find(struct subordinate *ret, struct error *e);

/* Finds the first range of at least `count` ids in a file's text, for a user by name or number.
 * False: there is none. For tests. */
bool subordinate_range(
	const char *text, const char *name, uid_t uid, unsigned count, unsigned *ret_first);

#endif
