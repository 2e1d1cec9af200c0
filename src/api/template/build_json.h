/* Templates of clients and their builds as JSON, as E2B's API has them. All return a new reference,
 * or NULL when out of memory. */
#ifndef API_BUILD_JSON_H
#define API_BUILD_JSON_H

#include <jansson.h>

#include "store/builds.h"
#include "store/catalog.h"
#include "store/snapshots.h"
#include "store/tags.h"

enum { BUILD_LEVELS = 4 };

const char *build_status_name(enum store_build_status s); /* "waiting", ... */
const char *build_level_name(unsigned level);		  /* "debug", ... */

/* The answer to an announcement. */
json_t *build_announced_json(
	const struct store_catalog *c, const struct store_build *b, json_t *tags);

json_t *build_log_json(const struct store_build_log *l);

/* Takes ownership of both. why: entries of the step that failed; NULL if none failed. */
json_t *build_status_json(const struct store_build *b, json_t *entries, json_t *why);

/* Makes a Template. shown: the build that it has now. last: the newest build. */
json_t *build_template_json(const struct store_catalog *c, const struct store_build *shown,
	const struct store_build *last);

/* Makes a build of TemplateWithBuilds. */
json_t *build_of_template_json(const struct store_build *b);

/* What clients are told of the build that a tag names. `stored` is the id of a build, or of a
 * snapshot, which E2B's clients expect to be a build. */
void build_id_of_tag(const char *stored, char out[STORE_UUID_BYTES]);
/* Of the latter the other way round. False: no snapshot's. build_id: a UUID in lower case. */
bool snapshot_of_build_id(const char *build_id, char out[STORE_SNAPSHOT_ID_BYTES]);

/* Makes a TemplateWithBuilds of a snapshot, with that build. Takes ownership of names, which may be
 * NULL when out of memory. */
json_t *build_snapshot_json(const struct store_snapshot *sn, json_t *names);

/* Makes a tag, and an assignment of a tag (protocol section 11.6). */
json_t *build_tag_json(const struct store_tag *t);
json_t *build_assignment_json(const struct store_tag *t);

#endif
