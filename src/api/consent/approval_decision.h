/* Reads a decision about an approval: {"decision": "allow" or "deny", "for": "once", "sandbox" or
 * "template", "ttl": seconds, "reason": text, "acceptUnseen": true}. */
#ifndef API_CONSENT_APPROVAL_DECISION_H
#define API_CONSENT_APPROVAL_DECISION_H

#include <jansson.h>

#include "http/request.h"
#include "store/approvals.h"

/* Fills state, scope, until_ns and reason. ret->reason borrows from the body. Returns false if it
 * answered with 400. */
bool approval_decision_take(struct request *r, const json_t *body, struct store_approval *ret,
	bool *ret_accepts_unseen);

#endif
