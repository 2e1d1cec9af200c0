/* `mayfly policy check`: judges a connection or request by a policy, with the worker's own code
 * (rules/rules.h). */
#ifndef CLI_POLICY_CHECK_H
#define CLI_POLICY_CHECK_H

#include <stdbool.h>

#include "base/error.h"

/* Prints which rule decides, and why. file: the policy. as: "METHOD URL", or "HOST[:PORT]" of a
 * connection (port 443 by default). body: a file with the request's JSON body; NULL: unknown. Fails
 * with ERROR_USAGE if a file or `as` is wrong. */
int policy_check(const char *file, const char *as, const char *body, bool json, struct error *e);

#endif
