/* `--secret` of `agents deploy`. */
#ifndef CLI_AGENTS_SECRETS_H
#define CLI_AGENTS_SECRETS_H

#include <jansson.h>

#include "base/error.h"
#include "base/options.h"

/* Reads VARIABLE[=VALUE][@HOST[,HOST]...] or VARIABLE=NAME@HOST..., keeps values as secrets of the
 * key, named AGENT-VARIABLE, and makes the setting `secrets`. *ret stays NULL without any. */
int agent_secrets_read(
	const char *agent, const struct option_list *list, json_t **ret, struct error *e);

#endif
