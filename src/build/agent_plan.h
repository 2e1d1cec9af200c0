/* Finds out from a hosted agent's files what it is, and makes the steps that build its template.
 * The input is "agent" of a build's specification (spec.h). The result stands for its "base" and
 * "steps".
 *
 *	{"settings": proto/agent_settings.h, of the request,
 *	 "files": path of the archive; missing: none,
 *	 "base": NAME of a template that it stands on; missing: a runtime,
 *	 "registry": HOST or HOST/PATH of images without one; may be missing,
 *	 "caches": scope of what npm and pip download (cache_mount.h); missing: nothing is kept}
 *
 * The first of these files in the archive's top folder decides: `Dockerfile`; `package.json`;
 * `requirements.txt` or `pyproject.toml`; `deno.json`, `deno.jsonc` or `deno.lock`; a program with
 * a usual name, such as main.py; `agent.json` with `entry`. Settings that the request leaves out
 * are taken from `agent.json`.
 *
 * Steps copy manifests and install what they name before they copy the other files. So the cache of
 * steps serves the installation as long as only code changes. */
#ifndef BUILD_AGENT_PLAN_H
#define BUILD_AGENT_PLAN_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

enum { AGENT_MANIFEST_MAX = 1 << 20 };

struct agent_plan {
	const char *kind; /* node, python, deno, docker, command, template */
	const char *base; /* name of a template, borrowed; NULL for docker */
	json_t *steps;	  /* owned; as in spec.h */
	json_t *settings; /* owned; all settings that were given */
	char *entry;	  /* owned; NULL for docker: ENTRYPOINT and CMD say it */
	char *dockerfile; /* owned; its text; for docker only */
	size_t dockerfile_bytes;
};

/* dirfd: directory of the files, or -1. The files are not trusted. Fails with ERROR_USAGE, and the
 * message says what to do. Call agent_plan_done() in any case. */
int agent_plan_make(int dirfd, const json_t *agent, struct agent_plan *ret, struct error *e);
void agent_plan_done(struct agent_plan *p);

#endif
