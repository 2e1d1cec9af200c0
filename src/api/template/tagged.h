/* What has tags: a template that a client built, or snapshots.
 *
 * With E2B a snapshot's name is a template, and snapshots of that name are its builds. Here each
 * snapshot is a template on its own, but tags and ids of builds are looked for among all of its
 * name (store/snapshots.h). A snapshot without a name is alone, with the tag `default`. */
#ifndef API_TAGGED_H
#define API_TAGGED_H

#include <stdbool.h>

#include "catalog/find.h"
#include "store/snapshots.h"

struct request;

struct tagged {
	bool snapshots;				/* else `t` is valid */
	struct store_snapshot sn;		/* one of them */
	struct found_template t;		/* with a row, and the client may change it */
	char id[STORE_SNAPSHOT_TEMPLATE_BYTES]; /* what store/tags.h calls it */
};

/* Finds it by an id or a name, with a tag or without. The client's own template comes before its
 * snapshots of that name. Returns false if it answered the request. */
bool tagged_find(
	struct request *r, const char *given, struct template_ref *ret_ref, struct tagged *ret);

#endif
