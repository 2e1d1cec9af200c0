/* The daemon's view of its sandboxes: one struct instance for each that is alive.
 *
 * The store is the truth about what exists, the file system about what runs (sandbox_dir.h); an
 * instance joins both in memory, for as long as its microVM lives. Instances are found by id, never
 * kept over a return to the loop: look up again, or note the id. What is told below of an instance
 * does not change while it lives, except where it says so.
 *
 *	CREATING   a worker makes the microVM, then its agent is spoken to; not found by
 *	           instance_find()
 *	RUNNING    told to a client, row in the store
 *	PAUSING    its state is being written; not found; goes on as RUNNING if that fails,
 *	           otherwise the row says PAUSED and the instance goes
 *	ENDING     being killed; not found any more; the directory and the row go, then the instance
 */
#ifndef DAEMON_INSTANCE_H
#define DAEMON_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "fleet/agent_link.h"
#include "store/sandboxes.h"

struct fleet;
struct instance;

enum instance_state { INSTANCE_CREATING, INSTANCE_RUNNING, INSTANCE_PAUSING, INSTANCE_ENDING };

/* The running sandbox of that id (as route_sandbox_id() gives it), or NULL: 502 to its clients. */
struct instance *instance_find(struct fleet *f, const char *id);

/* Calls fn for every running one until it returns non-zero, and returns that. */
int instance_each(struct fleet *f, int (*fn)(struct instance *i, void *arg), void *arg);

const char *instance_id(const struct instance *i);
const char *instance_key_id(const struct instance *i);
const char *instance_template(const struct instance *i); /* its name */
const char *instance_template_id(const struct instance *i);
/* Its key was revoked: no token of it is good any more. May change. */
bool instance_is_revoked(const struct instance *i);
const char *instance_envd_token(const struct instance *i);    /* NULL: not secure */
const char *instance_traffic_token(const struct instance *i); /* NULL: ports are public */
/* The network object of protocol section 2.12 as JSON text, or NULL. May change. */
const char *instance_network_json(const struct instance *i);
/* Environment given at create as a JSON object of strings, or NULL; the agent has it. */
const char *instance_env_json(const struct instance *i);
/* Default user and working directory ("": home) of the template. */
const char *instance_user(const struct instance *i);
const char *instance_workdir(const struct instance *i);
int instance_dirfd(const struct instance *i); /* borrowed */

/* A new connection to its agent (agent_link.h). The link must be closed by the caller; when the
 * instance ends, it is lost. */
int instance_agent_connect(struct instance *i, const struct agent_link_ops *ops, void *arg,
	struct agent_link **ret, struct error *e);

#endif
