/* Makes the question for a person from a worker's message about a flow or a request
 * (docs/egress-protocol.md). A worker reads hostile bytes, so its message is checked and written
 * anew. */
#ifndef NETWORK_APPROVAL_QUESTION_H
#define NETWORK_APPROVAL_QUESTION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/approvals.h"

struct approval_question {
	char rule[STORE_APPROVAL_RULE_MAX + 1];
	char *text; /* an object for people, owned */
	/* Hashes. same: of the whole message, including what is cut for people. target: of what a
	 * lasting decision is about: rule, host, port and, for a request, scheme, method and path
	 * without query. */
	uint8_t same[STORE_APPROVAL_HASH], target[STORE_APPROVAL_HASH];
	bool request; /* a request of an open connection, which does not survive a pause */
};

/* budget: how much of a budget is used, for people; or NULL. Returns 0, -EINVAL if the message has
 * no port, or neither host nor address, or -ENOMEM. */
int approval_question_make(const json_t *said, const char *budget, struct approval_question *ret);
void approval_question_done(struct approval_question *q); /* zeroed is fine */

/* Makes an approval's JSON for the API, webhooks and terminals. Returns NULL when out of memory. */
json_t *approval_json(const struct store_approval *a);

#endif
