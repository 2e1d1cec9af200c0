/* Tags of the templates that clients make (catalog.h): each names one build. What a tag named
 * before stays as its history. All that write are synced. */
#ifndef STORE_TAGS_H
#define STORE_TAGS_H

#include <stdint.h>

#include "base/error.h"
#include "store/store.h"
#include "store/templates.h"

enum {
	STORE_TAG_MAX = 128,	  /* bytes */
	STORE_TAGS_MAX = 256,	  /* of a template */
	STORE_TAG_HISTORY = 50,	  /* older assignments of a tag go */
	STORE_TAGS_HIDDEN = 1024, /* of a template: older assignments of all its tags go */
};

struct store_tag {
	uint64_t seq; /* grows with time */
	char id[STORE_UUID_BYTES];
	char tag[STORE_TAG_MAX + 1];
	char build_id[STORE_UUID_BYTES];
	uint64_t at_ns;
	uint64_t build_created_ns, build_finished_ns; /* 0: not finished, or the build is gone */
};

/* Lets a tag name that build. ERROR_TOO_MANY beyond STORE_TAGS_MAX. */
int store_tag_assign(struct store *s, const char *template_id, const char *tag,
	const char *build_id, uint64_t at_ns, struct error *e);

/* ERROR_NOT_FOUND. The history stays hidden until the tag is assigned again. */
int store_tag_remove(struct store *s, const char *template_id, const char *tag, struct error *e);

/* What a tag names. ERROR_NOT_FOUND. */
int store_tag_get(struct store *s, const char *template_id, const char *tag, struct store_tag *ret,
	struct error *e);

/* All tags of a template, by name: what they name now. */
int store_tag_list(struct store *s, const char *template_id,
	int (*each)(void *arg, const struct store_tag *t), void *arg, struct error *e);

/* What a tag named, newest first, from before `before_seq` (0: from the newest). */
int store_tag_history(struct store *s, const char *template_id, const char *tag,
	uint64_t before_seq, uint32_t limit, int (*each)(void *arg, const struct store_tag *t),
	void *arg, struct error *e);

/* The number of tags that name a build. */
int store_tag_count_of(struct store *s, const char *template_id, const char *build_id,
	uint64_t *ret, struct error *e);

#endif
