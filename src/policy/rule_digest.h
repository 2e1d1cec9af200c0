/* The contents of rules, as digests. A decision of a person that holds for longer answers one rule
 * as it was when it asked (docs/consent.md). So the daemon keeps the rule's digest with it. */
#ifndef POLICY_RULE_DIGEST_H
#define POLICY_RULE_DIGEST_H

#include <jansson.h>
#include <stdint.h>

#include "policy/network_policy.h"
#include "rules/rules_ask.h"

enum { RULE_DIGEST_BYTES = 32 };

/* The digests of all rules of a sandbox. Immutable once made. */
struct rule_digests;

/* network: an object that network_check() accepts, or NULL. Returns NULL when out of memory. The
 * caller frees it with rule_digests_free(). */
struct rule_digests *rule_digests_new(const struct network_floors *floors, const json_t *network);
void rule_digests_free(struct rule_digests *d); /* NULL is fine */

/* Writes the digest of the rule with this id, as workers name it ("operator.pay"). If several
 * layers have the id, it covers all of these rules. Zeros stand for no rule. */
void rule_digests_get(const struct rule_digests *d, const char *id, uint8_t out[RULE_DIGEST_BYTES]);

/* Who may decide what the rule asks. If several layers have the id, what all of them admit. A rule
 * that is not known is one that no limit of the operator or a key has. */
struct rules_ask rule_digests_ask(const struct rule_digests *d, const char *id);

/* Whether the id is of a rule of the operator or of a key's limits. A sandbox's own rule with such
 * an id counts as one. */
bool rule_digests_is_floor(const char *id);

#endif
