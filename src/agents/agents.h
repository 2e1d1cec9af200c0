/* Hosted agents (docs/agents.md): what a name leads to, and which versions are in use. Whoever runs
 * a version holds it for that time, so that its files stay. For the loop's thread. */
#ifndef AGENTS_AGENTS_H
#define AGENTS_AGENTS_H

#include <stdint.h>

#include "base/error.h"
#include "store/agent_versions.h"
#include "store/agents.h"

struct fleet;

/* What a path or a command says: `name`, `name:alias` or `name@version`. */
struct agent_ref {
	char name[STORE_CATALOG_NAME_MAX + 1];
	char alias[STORE_AGENT_ALIAS_MAX + 1]; /* "": none */
	uint32_t version;		       /* 0: none */
};

/* 0, or -EINVAL with *ret_reason saying what is wrong. */
int agent_ref_parse(const char *text, struct agent_ref *ret, const char **ret_reason);

/* Finds the version that an invocation runs on: the one that is named, one of the alias's by
 * weight, or the current one. It is READY. ERROR_NOT_FOUND says what is missing; for an agent
 * whose first version builds or has failed, too. */
int agents_find(struct fleet *f, const char *key_id, const struct agent_ref *ref,
	struct store_agent *ret_agent, struct store_agent_version *ret, struct error *e);

/* Counts the uses of a version by its build's id. While there are any its template stays, also when
 * the agent is gone. Hold in the same turn of the loop as agents_find(). -ENOMEM. */
int agents_hold(struct fleet *f, const char *build_id);
void agents_release(struct fleet *f, const char *build_id);

#endif
