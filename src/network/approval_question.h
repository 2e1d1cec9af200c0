/* What a person is asked: the words of a worker about a flow or a request (docs/egress-
 * protocol.md), checked and put in our form. A worker reads hostile bytes, so nothing of it is
 * taken as it is. */
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
	/* Of all that was said, also of what is cut for people; of what a decision for longer is
	 * about: rule, host, port, and scheme, method and path without query of a request. */
	uint8_t same[STORE_APPROVAL_HASH], target[STORE_APPROVAL_HASH];
	bool request; /* of an open connection, which does not survive a pause */
};

/* -EINVAL: it says neither host nor address, or has no port. -ENOMEM. */
int approval_question_make(const json_t *said, struct approval_question *ret);
void approval_question_done(struct approval_question *q); /* zeroed is fine */

/* An approval for the API, webhooks and terminals; NULL: out of memory. */
json_t *approval_json(const struct store_approval *a);

#endif
