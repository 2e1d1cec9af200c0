/* `mayfly policy check`: what a policy says about a connection or request, judged by what judges in
 * the worker (rules/rules.h). */
#ifndef CLI_POLICY_CHECK_H
#define CLI_POLICY_CHECK_H

#include <stdbool.h>

#include "base/error.h"

/* file: the policy. as: "METHOD URL", or "HOST[:PORT]" of a connection (port 443). Prints which
 * rule decides, and why. ERROR_USAGE: the file or `as` is wrong. */
int policy_check(const char *file, const char *as, bool json, struct error *e);

#endif
