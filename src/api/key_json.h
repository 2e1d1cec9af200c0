/* API keys and teams as JSON, as E2B's API has them. Used for the operator (operator.h) and for
 * clients that manage keys (api_keys.c). */
#ifndef API_KEY_JSON_H
#define API_KEY_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "api/operation.h"
#include "store/keys.h"

/* TeamAPIKey; for the operator with team and limits. A new reference, NULL when out of memory. */
json_t *key_json(const struct store_key *k, bool for_operator);
json_t *team_json(const struct store_team *t, bool is_default);

/* Creates a key. *ret is as from key_json(), plus the secret as "key". The secret is shown only
 * here. */
int key_json_create(struct store *s, const char *name, const char *team_id,
	const struct store_limits *l, bool for_operator, json_t **ret, struct error *e);

/* Copies the body's limits into l and leaves the others. l borrows from the body. */
int key_limits_take(const json_t *body, struct store_limits *l, struct error *e);

/* Operations of the operator. keys_list takes ?team=. keys_create takes `name`, `team` (a name; the
 * team is created if missing) and limits. keys_change takes any of `name` and limits. */
int keys_list(struct operation *o, struct error *e);
int keys_create(struct operation *o, struct error *e);
int keys_change(struct operation *o, struct error *e);
int keys_revoke(struct operation *o, struct error *e);
int teams_list(struct operation *o, struct error *e);

#endif
