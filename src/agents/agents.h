/* Hosted agents (docs/agents.md): which version a name means, and which versions are in use. A
 * caller that runs a version holds it meanwhile, so that its files stay. All functions belong to
 * the loop's thread. */
#ifndef AGENTS_AGENTS_H
#define AGENTS_AGENTS_H

#include <stdint.h>

#include "base/error.h"
#include "store/agent_versions.h"
#include "store/agents.h"

struct fleet;

/* A reference to an agent: `name`, `name:alias` or `name@version`. */
struct agent_ref {
	char name[STORE_CATALOG_NAME_MAX + 1];
	char alias[STORE_AGENT_ALIAS_MAX + 1]; /* "": none */
	uint32_t version;		       /* 0: none */
};

/* Returns 0, or -EINVAL and a static reason in *ret_reason. */
int agent_ref_parse(const char *text, struct agent_ref *ret, const char **ret_reason);

/* Finds the version that an invocation runs: the version that ref names, one of the alias's
 * versions, drawn by weight, or the current version. A session (or NULL) always draws the same
 * version of an alias, as long as its weights stay. The version is READY. Fails with
 * ERROR_NOT_FOUND, and the message says what is missing. It also fails so if the first version is
 * being built or has failed. */
int agents_find(struct fleet *f, const char *key_id, const struct agent_ref *ref,
	const char *session, struct store_agent *ret_agent, struct store_agent_version *ret,
	struct error *e);

/* Count the uses of a version, by the id of its build. While the count is not 0 the version's
 * template stays, even if the agent is removed. Call agents_hold() in the same turn of the loop as
 * agents_find(). It returns 0 or -ENOMEM. */
int agents_hold(struct fleet *f, const char *build_id);
void agents_release(struct fleet *f, const char *build_id);

#endif
