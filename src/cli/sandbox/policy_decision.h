/* Decisions of people that hold for longer (docs/consent.md#decisions-that-last), in a policy as
 * `mayfly policy ID` prints it. */
#ifndef CLI_SANDBOX_POLICY_DECISION_H
#define CLI_SANDBOX_POLICY_DECISION_H

#include <jansson.h>

#include "rules/rules.h"

enum { POLICY_DECISION_DIGEST = 65 };

/* Writes the digest of a request's path, as workers make it. */
void policy_decision_digest(const char *path, size_t n, char out[POLICY_DECISION_DIGEST]);

/* Returns the decision that answers a rule of the document that asks, as this rule is now; or NULL.
 * path_digest: of a request. Borrowed from `decisions`, which is an array or NULL. */
const json_t *policy_decision_find(const json_t *decisions, json_t *document,
	const struct rules_rule *rule, const struct rules_question *q, const char *path_digest);

#endif
