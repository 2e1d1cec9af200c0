/* Moves what leads to versions: the name, and aliases. For the loop's thread. */
#ifndef AGENTS_MOVE_H
#define AGENTS_MOVE_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "store/agents.h"

struct fleet;

enum { AGENT_WEIGHTS_MAX = 8, AGENT_WEIGHT_MAX = 1000000 };

/* Moves the name to a version that is ready; 0: the newest below the current one. *ret is the
 * version. ERROR_NOT_FOUND. */
int agents_rollback(struct fleet *f, const struct store_agent *a, uint32_t number, uint32_t *ret,
	struct error *e);

/* weights: {"3": 90, "4": 10}, of versions that are ready. They stay while the alias names them.
 * ERROR_USAGE, ERROR_NOT_FOUND, ERROR_TOO_MANY. */
int agents_set_alias(struct fleet *f, const struct store_agent *a, const char *alias,
	const json_t *weights, struct error *e);
int agents_remove_alias(
	struct fleet *f, const struct store_agent *a, const char *alias, struct error *e);

#endif
