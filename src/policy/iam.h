/* Checks the member `iam` of a creation: tokens that tell services which sandbox a request comes
 * from (docs/network.md). */
#ifndef POLICY_IAM_H
#define POLICY_IAM_H

#include <jansson.h>

#include "base/error.h"

enum {
	IAM_TOKENS_MAX = 5,
	IAM_NAME_MAX = 64, /* bytes */
	IAM_AUDIENCE_MAX = 1024,
};

/* The prefix of a token's name where names of secrets are used: in policies and records. Names of
 * secrets have no dot, so they never collide. */
#define IAM_SECRET_PREFIX "identity.tokens."

/* Accepts NULL and null. *ret is a copy, {"tokens": {NAME: {"audience", "tokenType"}}}, or NULL if
 * there are no tokens. Unknown members are dropped. Fails with ERROR_USAGE or ERROR_LIMIT; the
 * message begins with the member. */
int iam_take(const json_t *iam, json_t **ret, struct error *e);

#endif
