/* Moves an agent's name and its aliases from version to version. All functions belong to the loop's
 * thread. */
#ifndef AGENTS_MOVE_H
#define AGENTS_MOVE_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "store/agents.h"

struct fleet;

enum { AGENT_WEIGHTS_MAX = 8, AGENT_WEIGHT_MAX = 1000000 };

/* Moves the name to a version that is ready. number 0 means the newest version below the current
 * one. *ret becomes the version's number. Fails with ERROR_NOT_FOUND. */
int agents_rollback(struct fleet *f, const struct store_agent *a, uint32_t number, uint32_t *ret,
	struct error *e);

/* Makes or changes an alias. weights: an object of versions that are ready, such as {"3": 90, "4":
 * 10}. These versions keep their files while the alias names them. Fails with ERROR_USAGE,
 * ERROR_NOT_FOUND or ERROR_TOO_MANY. */
int agents_set_alias(struct fleet *f, const struct store_agent *a, const char *alias,
	const json_t *weights, struct error *e);
int agents_remove_alias(
	struct fleet *f, const struct store_agent *a, const char *alias, struct error *e);

#endif
