/* What the store remembers of templates, besides their files (image/template.h): a permanent id,
 * the id of the current build, and how often sandboxes were made.
 *
 * A template becomes known when it is first looked at. Its row is never removed: a new template of
 * the same name is the same template, rebuilt. Builds differ by their time. A build that is
 * replaced before anybody looks is not counted. */
#ifndef STORE_TEMPLATES_H
#define STORE_TEMPLATES_H

#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

enum { STORE_TEMPLATE_ID_BYTES = 21 }; /* 20 of a-z 0-9, NUL */

struct store_template {
	char id[STORE_TEMPLATE_ID_BYTES];
	char build_id[STORE_UUID_BYTES];
	uint64_t build_count, spawn_count;
	uint64_t last_spawned_ns; /* 0: never */
};

/* Finds or makes the row of the template with that name. made_s is the build time of the files; a
 * time that differs from the last one means a new build. Synced when it writes. */
int store_template_see(struct store *s, const char *name, uint64_t made_s,
	struct store_template *ret, struct error *e);

/* The name of the template with that id. -ENOENT, without filling e, when there is none. */
int store_template_name(
	struct store *s, const char *id, char ret[STORE_NAME_MAX + 1], struct error *e);

/* Counts a sandbox made from the template. Call it in one batch with the insertion of its row. */
int store_template_spawned(struct store *s, const char *id, uint64_t at_ns, struct error *e);

#endif
