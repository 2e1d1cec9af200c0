/* Snapshots of the daemon's sandboxes as bases of the operator's builds. They are called
 * `snapshot:NAME[:TAG]` or `snapshot:ID`, after FROM and --from. A plain name never means one: else
 * a client could give a snapshot the name of an image that operators build on. */
#ifndef CLI_TEMPLATE_SNAPSHOT_H
#define CLI_TEMPLATE_SNAPSHOT_H

#include "base/error.h"
#include "build/base_snapshot.h"
#include "image/home.h"
#include "store/snapshots.h"

struct template_snapshot {
	char id[STORE_SNAPSHOT_ID_BYTES];
	struct base_snapshot base; /* its id is the one above, so this must not be copied */
};

/* What follows `snapshot:`, or NULL for another source. */
const char *template_snapshot_word(const char *from);

/* Asks the daemon. ERROR_NOT_FOUND if there is none of that name, ERROR_USAGE if keys have several
 * of it, ERROR_HOST without a daemon. Blocks. */
int template_snapshot_find(
	const struct home *home, const char *word, struct template_snapshot *ret, struct error *e);

#endif
