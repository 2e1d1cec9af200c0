/* What has tags: a template that a client built, or snapshots.
 *
 * With E2B a snapshot's name is a template, and its tags are the snapshots of that name. Here each
 * snapshot is on its own and has at most one NAME:TAG. So these are looked for by the name. A
 * snapshot without a name has the one tag `default`. Since a snapshot that loses its name keeps no
 * trace of it, a tag of snapshots has no history. */
#ifndef API_TAGGED_H
#define API_TAGGED_H

#include <stdbool.h>

#include "catalog/find.h"
#include "store/snapshots.h"
#include "store/tags.h"

struct request;

struct tagged {
	bool snapshots;		  /* else `t` is valid */
	struct store_snapshot sn; /* one of them */
	struct found_template t;  /* with a row, and the client may change it */
};

/* Finds it by an id or a name, with a tag or without. The client's own template comes before its
 * snapshots of that name. Returns false if it answered the request. */
bool tagged_find(
	struct request *r, const char *given, struct template_ref *ret_ref, struct tagged *ret);

/* The present assignments of all tags. Of snapshots the newest STORE_SNAPSHOTS_LIST_MAX. */
int tagged_list(struct store *s, const struct tagged *t,
	int (*each)(void *arg, const struct store_tag *tag), void *arg, struct error *e);

/* The present assignment of a tag. ERROR_NOT_FOUND. */
int tagged_get(struct store *s, const struct tagged *t, const char *tag, struct store_tag *ret,
	struct error *e);

/* As store_tag_history(). */
int tagged_history(struct store *s, const struct tagged *t, const char *tag, uint64_t before_seq,
	uint32_t limit, int (*each)(void *arg, const struct store_tag *tag), void *arg,
	struct error *e);

/* Takes a tag away, if there is one. A snapshot then has no name any more. */
int tagged_remove(struct store *s, const struct tagged *t, const char *tag, struct error *e);

#endif
