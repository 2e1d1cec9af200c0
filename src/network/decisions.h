/* Decisions of people that hold for longer than one flow (docs/consent.md#decisions-that-last).
 * Each is a rule of its own, beside the policy: it answers one rule that asks, as this rule was
 * when it asked, about one target. It never answers a rule that denies.
 *
 * The store keeps them (store/approvals.h), and approvals.h applies them before anybody is asked. A
 * decision that is made, or ended by a person, makes a new generation of the policies that it is
 * about. The end of its time does not. */
#ifndef NETWORK_DECISIONS_H
#define NETWORK_DECISIONS_H

#include <jansson.h>

#include "base/error.h"

struct fleet;
struct instance;
struct rule_digests;
struct store_sandbox;

/* Returns the contents of a sandbox's rules (policy/rule_digest.h), or NULL without memory or
 * store. The caller frees it. */
struct rule_digests *decisions_rules(const struct instance *i);

/* An approval was decided. If the decision holds for longer, makes new generations. Those of other
 * sandboxes of a template follow in later turns (renewal.h). */
void decisions_made(struct fleet *f, const char *approval_id);

/* Ends a decision that holds. key_id: the key that it must belong to, and that must be allowed to
 * decide it; NULL: the operator. Fails with ERROR_NOT_FOUND, ERROR_FORBIDDEN, or with ERROR_EXISTS
 * if it holds no more. */
int decisions_end(struct fleet *f, const char *approval_id, const char *key_id, struct error *e);

/* The sandbox has another policy: ends its decisions whose rule has changed. Decisions for its
 * template stay, for sandboxes that have the rule still. */
void decisions_check(const struct instance *i);

/* Returns the decisions that hold for a sandbox, as rules for people. NULL: failed. */
json_t *decisions_list(struct fleet *f, const struct store_sandbox *sb, struct error *e);

#endif
