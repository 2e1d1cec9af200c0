/* The operator's requests that need only the store: keys, teams, tiers, usage, lockdown. The daemon
 * serves them on its admin socket. Without a daemon the command line runs the same code on the
 * store, so both give the same answers. docs/openapi.yaml has the shapes. */
#ifndef API_OPERATOR_H
#define API_OPERATOR_H

#include <jansson.h>

#include "base/error.h"
#include "store/store.h"

/* target: path and query as in HTTP. body may be NULL. *ret is a new reference, NULL for an empty
 * answer. Fails with the store's errors, ERROR_USAGE or ERROR_NOT_FOUND. */
int operator_call(struct store *s, const char *method, const char *target, const json_t *body,
	json_t **ret, struct error *e);

#endif
