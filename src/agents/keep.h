/* Decides which versions keep their files: the current version, those that aliases name, those in
 * use, and the newest of the others, for rolling back. All functions belong to the loop's
 * thread. */
#ifndef AGENTS_KEEP_H
#define AGENTS_KEEP_H

#include "base/error.h"

struct fleet;

enum { AGENT_READY_KEPT = 5 }; /* of an agent, besides those that are current, named or in use */

/* Retires the versions of an agent that need not stay. If that fails, the next call tries again. */
void agents_tidy(struct fleet *f, const char *agent_id);

/* Removes an agent with its versions and their files, and ends its builds. The files of a version
 * in use stay until its last use is over. */
int agents_remove(struct fleet *f, const char *agent_id, struct error *e);

/* Removes all agents of a revoked key. If that fails, the next start tries again. */
void agents_remove_key(struct fleet *f, const char *key_id);
/* After a start: removes the agents of all revoked keys. */
void agents_remove_revoked(struct fleet *f);

#endif
