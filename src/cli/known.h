/* The sandboxes of this host: what the daemon, when one runs, says of its own, and the directories
 * of all, those of mayfly run among them. */
#ifndef CLI_KNOWN_H
#define CLI_KNOWN_H

#include <jansson.h>

#include "base/error.h"
#include "image/home.h"
#include "proto/route.h"
#include "sandbox/sandbox_dir.h"

struct known {
	struct home home;
	struct sandbox_dirs dirs;
	struct sandbox_record *records; /* oldest first */
	size_t count;
	json_t *served; /* the daemon's (GET /v2/sandboxes), oldest first; empty when none runs */
};

#define KNOWN_INIT                                                                                 \
	{                                                                                          \
		.home = HOME_INIT, .dirs = SANDBOX_DIRS_INIT                                       \
	}

/* Removes what killed sandboxes left behind. */
int known_open(struct known *ret, struct error *e);
void known_close(struct known *k);

/* The one whose id begins with `prefix`: ERROR_NOT_FOUND; ERROR_USAGE when there are several. */
int known_find(const struct known *k, const char *prefix, char ret_id[ROUTE_SANDBOX_ID_MAX + 1],
	struct error *e);
/* What the daemon says of it; NULL: it is none of the daemon's. Borrowed. */
const json_t *known_served(const struct known *k, const char *id);
const struct sandbox_record *known_record(const struct known *k, const char *id); /* or NULL */

/* Blocks until nothing is left of it. */
int known_kill(const struct known *k, const char *id, struct error *e);
/* Calls `each` with the id of every one, until it returns other than 0, which is returned. */
int known_each(const struct known *k, int (*each)(void *arg, const char *id), void *arg);

#endif
