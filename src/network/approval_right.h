/* Who may decide an approval, and for how long (docs/consent.md#who-decides). The rule that asks
 * says it, and the daemon keeps that with the question. */
#ifndef NETWORK_APPROVAL_RIGHT_H
#define NETWORK_APPROVAL_RIGHT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "policy/rule_digest.h"
#include "store/approvals.h"

enum approval_by { APPROVAL_BY_OPERATOR, APPROVAL_BY_KEY, APPROVAL_BY_LINK, APPROVAL_BYS_ };

struct approval_decider {
	enum approval_by by;
	const char *key_id;  /* the approval must belong to it; NULL: any */
	bool accepts_unseen; /* allows also what is not shown */
};

/* Checks a decision (state, scope) about a stored question. Fails with ERROR_FORBIDDEN, or with
 * ERROR_USAGE if it must accept what is not shown. */
int approval_right_check(const char *question_json, const struct approval_decider *by,
	const struct store_approval *d, struct error *e);

/* Whether a key may take back a decision about the question. */
int approval_right_check_end(const char *question_json, struct error *e);

/* Whether a link is made for a question, and for whom: only the operator's webhooks, if no tenant's
 * program shall have it. */
bool approval_right_has_link(const char *question_json, const char *rule, bool *ret_operator);

#endif
