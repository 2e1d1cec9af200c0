/* Makes the question for a person from a worker's message about a flow or a request
 * (docs/egress-protocol.md). A worker reads hostile bytes, so its message is checked and written
 * anew. */
#ifndef NETWORK_APPROVAL_QUESTION_H
#define NETWORK_APPROVAL_QUESTION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/rule_digest.h"
#include "store/approvals.h"

struct approval_question {
	char rule[STORE_APPROVAL_RULE_MAX + 1];
	char *text;			     /* an object for people, owned */
	uint8_t digest[STORE_APPROVAL_HASH]; /* of the rule */
	/* Hashes. same: of the rule and the whole message, including what is cut for people.
	 * target: of what a lasting decision is about: rule, host, port and, for a request, scheme,
	 * method and path without query, and the call if the rule reads calls. */
	uint8_t same[STORE_APPROVAL_HASH], target[STORE_APPROVAL_HASH];
	bool request; /* a request of an open connection, which does not survive a pause */
};

/* Takes the id of the rule that asks from a worker's message. */
void approval_question_rule(const json_t *said, char out[STORE_APPROVAL_RULE_MAX + 1]);

/* budget: how much of a budget is used, for people; or NULL. ask: who may decide; NULL: not
 * told. digest: of the content of the rule
 * that asks (policy/rule_digest.h). Returns 0, -EINVAL if the message has no port, or neither host
 * nor address, or -ENOMEM. */
int approval_question_make(const json_t *said, const char *budget, const struct rules_ask *ask,
	const uint8_t digest[STORE_APPROVAL_HASH], struct approval_question *ret);
void approval_question_done(struct approval_question *q); /* zeroed is fine */

/* Writes what is called for a person, in a line: "mcp tools pay, refund". NULL: nothing is known of
 * a call, or out of memory. Most of it is a guest's words. The caller frees it. */
char *approval_call_text(const json_t *approval);

/* Writes the headers of a request for a person, each with `before` in front of it. NULL: it has
 * none that are shown, or out of memory. Most of it is a guest's words. The caller frees it. */
char *approval_headers_text(const json_t *approval, const char *before);

/* Makes an approval's JSON for the API, webhooks and terminals. Returns NULL when out of memory. */
json_t *approval_json(const struct store_approval *a);

#endif
