/* Secrets that the rules of a sandbox's policy refer to, in headers. */
#ifndef NETWORK_REFERENCES_H
#define NETWORK_REFERENCES_H

#include <jansson.h>

#include "base/error.h"

struct fleet;

/* Checks that the key has each of them. policy: a checked document (rules/rules.h), or NULL. Fails
 * with ERROR_USAGE, where the message names the rule and the header, or with an error of the
 * store. */
int references_check(struct fleet *f, const char *key_id, const json_t *policy, struct error *e);

#endif
