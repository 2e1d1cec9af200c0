/* What the operator asks that the store alone can answer: keys, teams, tiers, usage. The daemon
 * serves it on its administrator's socket; without a daemon the command line calls it on the store
 * itself, so that both give the same answers. The shapes are in docs/openapi.yaml. */
#ifndef DAEMON_OPERATOR_H
#define DAEMON_OPERATOR_H

#include <jansson.h>

#include "base/error.h"
#include "store/store.h"

/* target: path and query as in HTTP. body may be NULL. *ret is a new reference, NULL for an empty
 * answer. The errors are those of the store, and ERROR_USAGE, ERROR_NOT_FOUND. */
int operator_call(struct store *s, const char *method, const char *target, const json_t *body,
	json_t **ret, struct error *e);

#endif
