/* Deploying an agent: a build (catalog/jobs.h) makes a new version. If it succeeds, the name moves
 * to the new version. If it fails, the name stays where it is. All functions belong to the loop's
 * thread. */
#ifndef AGENTS_DEPLOY_H
#define AGENTS_DEPLOY_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "store/agents.h"

struct fleet;

#define AGENT_ARCHIVE_BYTES_MAX (UINT64_C(256) << 20) /* compressed, as uploaded */

struct agent_order {
	const char *key_id, *name;
	const json_t *settings; /* already checked (proto/agent_settings.h) */
	const char *upload;	/* archive among the key's uploads, or NULL */
	const char *base;	/* template's directory; NULL: the agent's kind decides */
};

/* Makes the version and queues its build. The upload is removed with the build, or at once if this
 * fails. Fails with ERROR_TOO_MANY or ERROR_LIMIT. */
int agents_deploy(struct fleet *f, const struct agent_order *o, struct store_agent *ret,
	uint32_t *ret_number, struct error *e);

/* Registers for the ends of builds. Call it after catalog_start(). */
void agents_watch_builds(struct fleet *f);

#endif
