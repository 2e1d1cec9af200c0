/* Makes the smallest policy (docs/policy.md) that would have allowed what a sandbox did, from the
 * records of its activity. */
#ifndef POLICY_SUGGEST_H
#define POLICY_SUGGEST_H

#include <jansson.h>

#include "base/error.h"

enum {
	SUGGEST_TARGETS_MAX = 1024, /* names and addresses */
	SUGGEST_PATHS_MAX = 256,    /* per method and target; more become any path */
	SUGGEST_PATHS_KEPT = 16,    /* per rule; more become patterns of their first segments */
};

struct suggest {
	json_t *seen;	 /* {target: {port: {method: {path: count}}}}; without a method: a
			  * connection */
	json_t *models;	 /* (suggest_models.h) */
	unsigned unsure; /* number of requests whose path no rule can match */
};

/* Returns 0 or -ENOMEM. */
int suggest_begin(struct suggest *s);
void suggest_done(struct suggest *s);

/* Takes a record (docs/api.md, Activity). Skips records of denials, of incoming connections, and of
 * other kinds. Fails with ERROR_LIMIT if there are too many targets, or with ERROR_INTERNAL. */
int suggest_note(struct suggest *s, const json_t *record, struct error *e);

/* Makes the policy, which rules_check() accepts. Takes apart what was noted, so call it once. Fails
 * with ERROR_LIMIT if it would have too many rules. */
int suggest_policy(struct suggest *s, json_t **ret, struct error *e);

#endif
