/* What a hosted agent is, found out from its files, and the steps that make its template: what the
 * daemon says of it as "agent" of a build's specification (spec.h) becomes "base" and "steps".
 *
 * 	{"settings": proto/agent_settings.h, of the request,
 * 	 "files": path of the archive; missing: none,
 * 	 "base": NAME of a template that it stands on; missing: a runtime,
 * 	 "registry": HOST or HOST/PATH of images without one; may be missing}
 *
 * The first that fits, in the archive's top folder: `Dockerfile`; `package.json`;
 * `requirements.txt` or `pyproject.toml`; `deno.json`, `deno.jsonc` or `deno.lock`; a program by
 * its name (main.py and the like); `agent.json` with `entry` alone. Settings of `agent.json` stand
 * in for those that the request leaves out.
 *
 * Manifests are copied and installed before the rest is copied, so that the cache of steps keeps
 * what they install while only the code changes. */
#ifndef BUILD_AGENT_PLAN_H
#define BUILD_AGENT_PLAN_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

enum { AGENT_MANIFEST_MAX = 1 << 20 };

struct agent_plan {
	const char *kind; /* node, python, deno, docker, command, template */
	const char *base; /* of a template, borrowed; NULL for docker */
	json_t *steps;	  /* owned; of spec.h */
	json_t *settings; /* owned; all that were given */
	char *entry;	  /* owned; NULL for docker: what ENTRYPOINT and CMD say */
	char *dockerfile; /* owned; its text, of docker only */
	size_t dockerfile_bytes;
};

/* dirfd: of the files, which strangers made; -1: none. ERROR_USAGE says what to do. Call
 * agent_plan_done in any case. */
int agent_plan_make(int dirfd, const json_t *agent, struct agent_plan *ret, struct error *e);
void agent_plan_done(struct agent_plan *p);

#endif
