/* Deploying: a new version of an agent, which a build makes (catalog/jobs.h). When it is complete,
 * the name moves to it. When it fails, the name stays where it is. For the loop's thread. */
#ifndef AGENTS_DEPLOY_H
#define AGENTS_DEPLOY_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "store/agents.h"

struct fleet;

#define AGENT_ARCHIVE_BYTES_MAX (UINT64_C(256) << 20) /* as it comes */

struct agent_order {
	const char *key_id, *name;
	const json_t *settings; /* that were checked (proto/agent_settings.h) */
	const char *upload;	/* the archive, in the key's uploads, for once; NULL: none */
	const char *base;	/* directory of the template that it stands on; NULL: by its kind */
};

/* Makes the version, and queues its build. The upload goes with the build, or at once when this
 * fails. ERROR_TOO_MANY, ERROR_LIMIT. */
int agents_deploy(struct fleet *f, const struct agent_order *o, struct store_agent *ret,
	uint32_t *ret_number, struct error *e);

/* Listens for the ends of builds. After catalog_start(). */
void agents_watch_builds(struct fleet *f);

#endif
