/* Programs that clients start in a sandbox, in its activity: records of the kind "process", one
 * when it starts and one at its end. Environments are never noted: they hold secrets. Programs that
 * other programs start have records of the kind "program" (reports.h).
 *
 * The daemon sees the end of a process only while a client is connected to it. To note each end
 * once, it remembers which processes it has seen start, at most PROCESSES_MAX of a sandbox. It
 * notes no end of others. */
#ifndef NETWORK_ACTIVITY_PROCESS_H
#define NETWORK_ACTIVITY_PROCESS_H

#include <jansson.h>
#include <stdint.h>

#include "proto/agent_wire.h"

struct fleet;

enum { PROCESSES_MAX = 64 };

/* Describes a command, for activity_process_started(). via: "envd" or "run". Returns NULL when out
 * of memory. */
json_t *activity_command(const struct agent_exec *exec, const char *via);

/* The process runs. Takes ownership of `command`; notes nothing if it is NULL. */
void activity_process_started(
	struct fleet *f, const char *sandbox_id, const char *key_id, uint32_t pid, json_t *command);
void activity_process_ended(struct fleet *f, const char *sandbox_id, const char *key_id,
	uint32_t pid, const struct agent_exit *how);

/* Notes a cell of code, which has no process of its own. language may be NULL. */
void activity_cell(struct fleet *f, const char *sandbox_id, const char *key_id,
	const char *language, const char *code);

/* Describes a start or an end that a guest reports. NULL if it makes no sense, or memory is out. */
json_t *activity_program(const struct agent_program *m);

/* Describes a file that a guest reports as written. NULL if it makes no sense, or memory is out. */
json_t *activity_file(const struct agent_file *m);
/* Tells that no files will be reported. */
json_t *activity_no_files(const char *why);

/* Call it when the sandbox has ended or was rolled back. */
void activity_processes_gone(struct fleet *f, const char *sandbox_id);

/* Call it at the daemon's end. */
void activity_processes_free(struct fleet *f);

#endif
