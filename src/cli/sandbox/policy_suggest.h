/* `mayfly policy suggest`: the smallest policy that would have allowed what a sandbox did. */
#ifndef CLI_POLICY_SUGGEST_H
#define CLI_POLICY_SUGGEST_H

#include "base/error.h"

/* Prints it. prefix: the beginning of the sandbox's id; the whole id if the sandbox has ended. */
int policy_suggest(const char *prefix, struct error *e);

#endif
