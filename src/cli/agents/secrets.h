/* `--secret` and `--plain-secret` of `agents deploy`. */
#ifndef CLI_AGENTS_SECRETS_H
#define CLI_AGENTS_SECRETS_H

#include <jansson.h>

#include "base/error.h"
#include "base/options.h"

/* Reads VARIABLE[=VALUE][@HOST[,HOST]...] or VARIABLE=NAME@HOST... Stores each value as a secret of
 * the key, named AGENT-VARIABLE. Those of `plain` are VARIABLE[=VALUE], and the program gets their
 * values. *ret becomes the setting `secrets`, or stays NULL if both lists are empty. */
int agent_secrets_read(const char *agent, const struct option_list *list,
	const struct option_list *plain, json_t **ret, struct error *e);

#endif
