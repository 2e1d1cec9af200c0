/* Hosted agents as JSON (docs/agents.md), and the agent of a path. */
#ifndef API_AGENT_JSON_H
#define API_AGENT_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "store/agent_versions.h"
#include "store/agents.h"

struct request;

/* Finds the agent that r->params[0] names, among those of the request's key. Returns false if it
 * answered the request. */
bool agent_of_path(struct request *r, struct store_agent *ret);

/* Finds the version of it that r->params[1] names. Returns false if it answered the request. */
bool agent_version_of_path(
	struct request *r, const struct store_agent *a, struct store_agent_version *ret);

/* Both return a new reference, or NULL when out of memory. */
json_t *agent_json(struct request *r, const struct store_agent *a);
json_t *agent_version_json(
	struct request *r, const struct store_agent *a, const struct store_agent_version *v);

const char *agent_state_name(enum store_agent_state s); /* "building", ... */

#endif
