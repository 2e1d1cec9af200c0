/* Templates that clients build: a permanent id, the key that owns it, and a name, which is unique
 * within the key. What a template is made of is in its builds (builds.h), and its tags (tags.h)
 * name some of these. Templates that the operator builds are in templates.h.
 *
 * The functions that write are synced, as clients keep the ids. */
#ifndef STORE_CATALOG_H
#define STORE_CATALOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"
#include "store/templates.h"

enum {
	STORE_CATALOG_NAME_MAX = 128,
	STORE_CATALOG_MAX = 256, /* templates of a key */
};

struct store_catalog {
	char id[STORE_TEMPLATE_ID_BYTES];
	char key_id[STORE_UUID_BYTES];
	char name[STORE_CATALOG_NAME_MAX + 1]; /* [a-z0-9_-] */
	bool public;			       /* other keys may use it, too */
	uint64_t created_ns, updated_ns;
	uint64_t build_count, spawn_count;
	uint64_t last_spawned_ns; /* 0: never */
};

/* Finds the key's template of that name, or makes it. ERROR_TOO_MANY beyond STORE_CATALOG_MAX. */
int store_catalog_put(struct store *s, const char *key_id, const char *name, uint64_t at_ns,
	struct store_catalog *ret, struct error *e);

/* Both: ERROR_NOT_FOUND when there is none. */
int store_catalog_get(struct store *s, const char *id, struct store_catalog *ret, struct error *e);
int store_catalog_find(struct store *s, const char *key_id, const char *name,
	struct store_catalog *ret, struct error *e);

/* Finds a template by the team of its key and its name. team: the id or the name of the team. A
 * private template counts only if it is of key_id, or if all is true. If there are several, it is
 * the one of key_id, else the oldest. ERROR_NOT_FOUND when there is none. */
int store_catalog_find_in_team(struct store *s, const char *team, const char *name,
	const char *key_id, bool all, struct store_catalog *ret, struct error *e);

/* All templates of a key, ordered by name. key_id NULL: of all keys. */
int store_catalog_list(struct store *s, const char *key_id,
	int (*each)(void *arg, const struct store_catalog *c), void *arg, struct error *e);

/* ERROR_NOT_FOUND when there is none. */
int store_catalog_set_public(
	struct store *s, const char *id, bool public, uint64_t at_ns, struct error *e);

/* Removes the builds of an id, their logs and its tags. None is success. */
int store_catalog_remove_builds(struct store *s, const char *id, struct error *e);

/* Removes a template with its builds, their logs and its tags. ERROR_NOT_FOUND if there is none. */
int store_catalog_remove(struct store *s, const char *id, struct error *e);

/* The numbers of sandboxes that were made from it: of those with a machine, and of paused ones. */
int store_catalog_count_sandboxes(struct store *s, const char *id, uint64_t *ret_running,
	uint64_t *ret_paused, struct error *e);

#endif
