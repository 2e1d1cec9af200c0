/* What the sandboxes of a version may reach: its settings `network`, `policy` and
 * `allow_internet_access`, which mean what they do at the creation of a sandbox (docs/network.md).
 * For the loop's thread. */
#ifndef AGENTS_REACH_H
#define AGENTS_REACH_H

#include <jansson.h>

#include "base/error.h"

struct fleet;

/* Makes of checked settings (proto/agent_settings.h) the members of a creation, "network" with the
 * policy in it and "allow_internet_access"; *ret is NULL if the settings say nothing. Nothing in it
 * is secret: a proxy of its own has no password. Fails with ERROR_USAGE or ERROR_LIMIT; the message
 * names the member. */
int agents_reach_make(
	struct fleet *f, const char *key_id, const json_t *settings, json_t **ret, struct error *e);

#endif
