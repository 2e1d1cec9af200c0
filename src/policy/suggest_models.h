/* Requests to models and to servers of tools among what a sandbox did, and what a rule that allows
 * them says of their bodies. */
#ifndef POLICY_SUGGEST_MODELS_H
#define POLICY_SUGGEST_MODELS_H

#include <jansson.h>

/* Takes the record of a request to a model, of a request that was read as MCP, or of a tool that
 * was called. all: an object, of all such records. key: names the host, port and path. Returns 0 or
 * -ENOMEM. */
int suggest_models_note(json_t *all, const char *key, const json_t *record);

/* Adds `api` with `models` and `serverTools`, or with `tools`, to a rule for these requests, of
 * which there were `count`. Returns 1, or 0 if that is not known of all of them: then a rule may
 * say nothing of bodies. Returns -ENOMEM. */
int suggest_models_add(const json_t *all, const char *key, json_int_t count, json_t *rule);

#endif
