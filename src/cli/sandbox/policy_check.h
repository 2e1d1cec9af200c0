/* `mayfly policy check`: what a policy says about a connection or request, judged by what judges in
 * the worker (rules/rules.h). */
#ifndef CLI_POLICY_CHECK_H
#define CLI_POLICY_CHECK_H

#include <stdbool.h>

#include "base/error.h"

/* file: the policy. as: "METHOD URL", or "HOST[:PORT]" of a connection (port 443). body: a file
 * with the request's body, application/json; NULL: not known. Prints which rule decides, and why.
 * ERROR_USAGE: a file or `as` is wrong. */
int policy_check(const char *file, const char *as, const char *body, bool json, struct error *e);

#endif
