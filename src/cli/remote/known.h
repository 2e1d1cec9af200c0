/* The sandboxes of this host. Combines the daemon's list, if one runs, with the directories of all
 * sandboxes, which include those of mayfly run. */
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
	json_t *served; /* the daemon's list (GET /v2/sandboxes), oldest first; empty if none
			 * runs */
};

#define KNOWN_INIT                                                                                 \
	{                                                                                          \
		.home = HOME_INIT, .dirs = SANDBOX_DIRS_INIT                                       \
	}

/* Also removes what killed sandboxes left behind. */
int known_open(struct known *ret, struct error *e);
void known_close(struct known *k);

/* Finds the one whose id begins with `prefix`. ERROR_NOT_FOUND, or ERROR_USAGE if there are
 * several. */
int known_find(const struct known *k, const char *prefix, char ret_id[ROUTE_SANDBOX_ID_MAX + 1],
	struct error *e);
/* The daemon's entry for it, borrowed. NULL: it is not the daemon's. */
const json_t *known_served(const struct known *k, const char *id);
const struct sandbox_record *known_record(const struct known *k, const char *id); /* or NULL */

/* Ends it. Blocks until nothing of it is left. */
int known_kill(const struct known *k, const char *id, struct error *e);
/* Calls `each` with every id until it returns non-zero; returns that value. */
int known_each(const struct known *k, int (*each)(void *arg, const char *id), void *arg);

#endif
