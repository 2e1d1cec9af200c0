/* API keys and teams as JSON, in the form of E2B's API. The operator (operator.h) and clients that
 * manage keys (api_keys.c) use them. */
#ifndef API_KEY_JSON_H
#define API_KEY_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "api/operation.h"
#include "store/keys.h"

/* Makes a TeamAPIKey. For the operator it also has the team, the maker and the limits. Both return
 * a new reference, or NULL when out of memory. */
json_t *key_json(const struct store_key *k, bool for_operator);
json_t *team_json(const struct store_team *t, bool is_default);

/* Creates a key. *ret is as from key_json(), with the secret as "key". The secret is shown nowhere
 * else. */
int key_json_create(struct store *s, const struct store_key_spec *spec, bool for_operator,
	json_t **ret, struct error *e);

/* Copies the limits that the body has into l, and leaves the others as they are. l borrows from the
 * body. */
int key_limits_take(const json_t *body, struct store_limits *l, struct error *e);

/* Operations of the operator. keys_list takes ?team=. keys_create takes `name`, `team` (a name; the
 * team is created if missing) and limits. keys_change takes any of `name` and limits. */
int keys_list(struct operation *o, struct error *e);
int keys_create(struct operation *o, struct error *e);
int keys_change(struct operation *o, struct error *e);
int keys_revoke(struct operation *o, struct error *e);
int teams_list(struct operation *o, struct error *e);

#endif
