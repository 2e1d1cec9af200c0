/* API keys and teams as JSON (protocol section 2.15), for the operator (operator.h) and for the
 * clients that manage keys (api_keys.c). */
#ifndef DAEMON_KEY_JSON_H
#define DAEMON_KEY_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "api/operation.h"
#include "store/keys.h"

/* TeamAPIKey; with its team and limits for the operator. New reference, NULL without memory. */
json_t *key_json(const struct store_key *k, bool for_operator);
json_t *team_json(const struct store_team *t, bool is_default);

/* Makes a key; *ret is as key_json(), with the secret as "key", which nobody can have again. */
int key_json_create(struct store *s, const char *name, const char *team_id,
	const struct store_limits *l, bool for_operator, json_t **ret, struct error *e);

/* Puts into l what the body says of limits, the rest stays; l borrows from the body. */
int key_limits_take(const json_t *body, struct store_limits *l, struct error *e);

/* Operations. keys_list takes ?team=; keys_create `name`, `team` (a name; made when there is none)
 * and limits; keys_change any of `name` and limits. */
int keys_list(struct operation *o, struct error *e);
int keys_create(struct operation *o, struct error *e);
int keys_change(struct operation *o, struct error *e);
int keys_revoke(struct operation *o, struct error *e);
int teams_list(struct operation *o, struct error *e);

#endif
