/* Tags of the templates that clients make (catalog.h), and of snapshots, which are builds of the
 * template that store_snapshot_template() says. Each tag names one build. The builds that it named
 * before are its history. Functions that write are synced. */
#ifndef STORE_TAGS_H
#define STORE_TAGS_H

#include <stdint.h>

#include "base/error.h"
#include "store/store.h"
#include "store/templates.h"

enum {
	STORE_TAG_MAX = 128,	  /* bytes */
	STORE_TAGS_MAX = 256,	  /* of a template */
	STORE_TAG_HISTORY = 50,	  /* assignments kept of a tag; older ones are removed */
	STORE_TAGS_HIDDEN = 1024, /* past assignments kept of all tags of a template; older ones are
				   * removed */
};

struct store_tag {
	uint64_t seq; /* grows with time */
	char id[STORE_UUID_BYTES];
	char tag[STORE_TAG_MAX + 1];
	char build_id[STORE_UUID_BYTES]; /* or the id of a snapshot */
	uint64_t at_ns;
	uint64_t build_created_ns, build_finished_ns; /* 0: not finished, or the build is gone */
};

/* Makes a tag name that build. ERROR_TOO_MANY beyond STORE_TAGS_MAX. */
int store_tag_assign(struct store *s, const char *template_id, const char *tag,
	const char *build_id, uint64_t at_ns, struct error *e);

/* ERROR_NOT_FOUND. The history stays hidden until the tag is assigned again. */
int store_tag_remove(struct store *s, const char *template_id, const char *tag, struct error *e);

/* The present assignment of a tag. ERROR_NOT_FOUND. */
int store_tag_get(struct store *s, const char *template_id, const char *tag, struct store_tag *ret,
	struct error *e);

/* The present assignments of all tags of a template, ordered by name. */
int store_tag_list(struct store *s, const char *template_id,
	int (*each)(void *arg, const struct store_tag *t), void *arg, struct error *e);

/* All assignments of a tag, newest first, older than `before_seq` (0: from the newest on). */
int store_tag_history(struct store *s, const char *template_id, const char *tag,
	uint64_t before_seq, uint32_t limit, int (*each)(void *arg, const struct store_tag *t),
	void *arg, struct error *e);

/* The tags that name a build, in the order in which they were given. */
int store_tag_list_of(struct store *s, const char *template_id, const char *build_id,
	int (*each)(void *arg, const struct store_tag *t), void *arg, struct error *e);

/* Removes all tags of a build, and their history as far as they named it. None is success. */
int store_tag_remove_of(struct store *s, const char *build_id, struct error *e);

/* The number of tags that name a build. */
int store_tag_count_of(struct store *s, const char *template_id, const char *build_id,
	uint64_t *ret, struct error *e);

#endif
