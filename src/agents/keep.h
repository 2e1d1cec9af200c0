/* Which versions keep their files: the current one, those that aliases name, those in use, and the
 * newest of the others, for rolling back. For the loop's thread. */
#ifndef AGENTS_KEEP_H
#define AGENTS_KEEP_H

#include "base/error.h"

struct fleet;

enum { AGENT_READY_KEPT = 5 }; /* of an agent, beside those that something leads to */

/* Retires the versions of an agent that need not stay. What fails is tried the next time. */
void agents_tidy(struct fleet *f, const char *agent_id);

/* Removes an agent with its versions and their files; those in use stay until they are not.
 * Builds of it end. */
int agents_remove(struct fleet *f, const char *agent_id, struct error *e);

/* The same for all agents of a key that was revoked. What fails is tried at the next start. */
void agents_remove_key(struct fleet *f, const char *key_id);
/* Those of all such keys, after a start. */
void agents_remove_revoked(struct fleet *f);

#endif
