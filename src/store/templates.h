/* What is to be remembered of templates besides their files (image/template.h): an id that stays,
 * the id of the build that the files are, and how often sandboxes were made.
 *
 * A template is known from the first time somebody looks at it. Its row is never removed: a
 * template of the same name is the same template, built again. Builds are told apart by their
 * time, so one that was replaced before anybody saw it is not counted. */
#ifndef STORE_TEMPLATES_H
#define STORE_TEMPLATES_H

#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

enum { STORE_TEMPLATE_ID_BYTES = 21 }; /* 20 of a-z 0-9 (E2B wire protocol, section 2.2), NUL */

struct store_template {
	char id[STORE_TEMPLATE_ID_BYTES];
	char build_id[STORE_UUID_BYTES];
	uint64_t build_count, spawn_count;
	uint64_t last_spawned_ns; /* 0: never */
};

/* The row of the template of that name, made if there is none. made_s is the time of the build that
 * the files are: another than the last seen is a new build. */
int store_template_see(struct store *s, const char *name, uint64_t made_s,
	struct store_template *ret, struct error *e);

/* The name of the template with that id: -ENOENT, without filling e, when there is none. */
int store_template_name(
	struct store *s, const char *id, char ret[STORE_NAME_MAX + 1], struct error *e);

/* A sandbox was made of it; in one batch with the insertion of its row. */
int store_template_spawned(struct store *s, const char *id, uint64_t at_ns, struct error *e);

#endif
