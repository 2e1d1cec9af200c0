/* `mayfly policy check`: judges a connection or request by a policy, with the worker's own code
 * (rules/rules.h). */
#ifndef CLI_POLICY_CHECK_H
#define CLI_POLICY_CHECK_H

#include <stdbool.h>

#include "base/error.h"
#include "base/options.h"

/* What is judged. as: "METHOD URL", or "HOST[:PORT]" of a connection (port 443 by default); NULL:
 * nothing. headers: "NAME: VALUE" each. body: a file with the request's body; NULL: unknown. */
struct policy_check {
	const char *as, *body;
	const struct option_list *headers;
};

/* Prints which rule decides, and why. file: the policy. Fails with ERROR_USAGE if a file or a
 * member of `of` is wrong. */
int policy_check(const char *file, const struct policy_check *of, bool json, struct error *e);

#endif
