/* What the verbs of `mayfly agents` share. */
#ifndef CLI_AGENTS_H
#define CLI_AGENTS_H

#include <jansson.h>

#include "base/error.h"
#include "cli/cli.h"

/* Makes one call to the running daemon. target: path and query. body and ret may be NULL. */
int agents_call(
	const char *method, const char *target, const json_t *body, json_t **ret, struct error *e);

/* Makes the path "/agents/NAME" followed by rest. *ret is malloc'ed. */
int agents_path(const char *name, const char *rest, char **ret, struct error *e);

extern const struct cli_verb agents_verb_deploy, agents_verb_invoke, agents_verb_logs;

#endif
