/* Programs that clients start in a sandbox, in its activity: records of the kind "process", one
 * when it starts and one at its end. Environments are never noted: they hold secrets.
 *
 * The daemon sees an end if a client is connected to the process then. To note it once, it keeps
 * which processes it has seen start, PROCESSES_MAX of a sandbox; it notes no end of others. */
#ifndef NETWORK_ACTIVITY_PROCESS_H
#define NETWORK_ACTIVITY_PROCESS_H

#include <jansson.h>
#include <stdint.h>

#include "proto/agent_wire.h"

struct fleet;

enum { PROCESSES_MAX = 64 };

/* What was asked for, to be said when it has started; NULL: out of memory. via: "envd" or "run". */
json_t *activity_command(const struct agent_exec *exec, const char *via);

/* It runs. Takes ownership of `command`; NULL: nothing is noted. */
void activity_process_started(
	struct fleet *f, const char *sandbox_id, const char *key_id, uint32_t pid, json_t *command);
void activity_process_ended(struct fleet *f, const char *sandbox_id, const char *key_id,
	uint32_t pid, const struct agent_exit *how);

/* A cell of code, which has no process of its own. language may be NULL. */
void activity_cell(struct fleet *f, const char *sandbox_id, const char *key_id,
	const char *language, const char *code);

/* The sandbox has ended, or gone back to earlier processes. */
void activity_processes_gone(struct fleet *f, const char *sandbox_id);

/* At the daemon's end. */
void activity_processes_free(struct fleet *f);

#endif
