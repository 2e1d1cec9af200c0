/* The smallest policy (docs/policy.md) that would have allowed what a sandbox did, made of the
 * records of its activity. */
#ifndef POLICY_SUGGEST_H
#define POLICY_SUGGEST_H

#include <jansson.h>

#include "base/error.h"

enum {
	SUGGEST_TARGETS_MAX = 1024, /* names and addresses */
	SUGGEST_PATHS_MAX = 256,    /* of a method of one of them; more become any path */
	SUGGEST_PATHS_KEPT = 16,    /* of a rule; more become what is below their first segments */
};

struct suggest {
	json_t *seen;	 /* {target: {port: {method: {path: null}}}}; no method: a connection */
	unsigned unsure; /* requests whose path no rule can match */
};

/* 0 or -ENOMEM. */
int suggest_begin(struct suggest *s);
void suggest_done(struct suggest *s);

/* Takes a record (docs/api.md, Activity). What was denied, came in, or says nothing is passed over.
 * 0, ERROR_LIMIT: too many targets, ERROR_INTERNAL. */
int suggest_note(struct suggest *s, const json_t *record, struct error *e);

/* The policy, which rules_check() accepts. ERROR_LIMIT: it would have too many rules. */
int suggest_policy(const struct suggest *s, json_t **ret, struct error *e);

#endif
