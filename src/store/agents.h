/* Hosted agents (docs/agents.md): a name of a key, the version that it leads to, and aliases that
 * lead to versions (agent_versions.h). Functions that write are synced. */
#ifndef STORE_AGENTS_H
#define STORE_AGENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/catalog.h"
#include "store/store.h"
#include "store/templates.h"

enum {
	STORE_AGENTS_MAX = 128,	      /* of a key */
	STORE_AGENT_ALIASES_MAX = 16, /* of an agent */
	STORE_AGENT_ALIAS_MAX = 64,
	STORE_AGENT_WEIGHTS_MAX = 512,
};

struct store_agent {
	char id[STORE_TEMPLATE_ID_BYTES];
	char key_id[STORE_UUID_BYTES];
	char name[STORE_CATALOG_NAME_MAX + 1]; /* as names of templates; unique in the key */
	uint64_t created_ns, updated_ns;
	uint32_t current; /* version that the name leads to; 0: none was ready yet */
	uint32_t last;	  /* the newest number that was given */
};

/* Finds the key's agent of that name, or makes it. ERROR_TOO_MANY beyond STORE_AGENTS_MAX. */
int store_agent_put(struct store *s, const char *key_id, const char *name, uint64_t at_ns,
	struct store_agent *ret, struct error *e);

/* ERROR_NOT_FOUND, as the next. */
int store_agent_get(struct store *s, const char *id, struct store_agent *ret, struct error *e);
int store_agent_find(struct store *s, const char *key_id, const char *name, struct store_agent *ret,
	struct error *e);

/* All of a key, by name. key_id NULL: of all keys. */
int store_agent_list(struct store *s, const char *key_id,
	int (*each)(void *arg, const struct store_agent *a), void *arg, struct error *e);

/* Moves the name to a version. */
int store_agent_set_current(
	struct store *s, const char *id, uint32_t number, uint64_t at_ns, struct error *e);

/* Removes it with its versions and aliases, and the rows of their builds. */
int store_agent_remove(struct store *s, const char *id, struct error *e);

/* --- aliases --- */

/* weights_json: {"3": 90, "4": 10}, versions and their shares. ERROR_TOO_MANY. */
int store_agent_alias_put(struct store *s, const char *agent_id, const char *alias,
	const char *weights_json, struct error *e);
/* ERROR_NOT_FOUND, as the next. */
int store_agent_alias_remove(
	struct store *s, const char *agent_id, const char *alias, struct error *e);
int store_agent_alias_get(struct store *s, const char *agent_id, const char *alias,
	char ret[STORE_AGENT_WEIGHTS_MAX + 1], struct error *e);
int store_agent_alias_list(struct store *s, const char *agent_id,
	int (*each)(void *arg, const char *alias, const char *weights_json), void *arg,
	struct error *e);

#endif
