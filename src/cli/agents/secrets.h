/* `--secret` of `agents deploy`. */
#ifndef CLI_AGENTS_SECRETS_H
#define CLI_AGENTS_SECRETS_H

#include <jansson.h>

#include "base/error.h"
#include "base/options.h"

/* Reads VARIABLE[=VALUE][@HOST[,HOST]...] or VARIABLE=NAME@HOST... Stores each value as a secret of
 * the key, named AGENT-VARIABLE. *ret becomes the setting `secrets`, or stays NULL if the list is
 * empty. */
int agent_secrets_read(
	const char *agent, const struct option_list *list, json_t **ret, struct error *e);

#endif
