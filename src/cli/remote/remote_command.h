/* Runs a command in a sandbox of the daemon, joined to this process. Shared by exec, shell and
 * run. */
#ifndef CLI_REMOTE_COMMAND_H
#define CLI_REMOTE_COMMAND_H

#include "cli/remote/session.h"
#include "cli/remote/session_remote.h"

struct remote_command {
	struct session_remote_options start; /* env gets TERM for a terminal */
	uint64_t deadline_ns;		     /* as in struct session_options */
};

/* As session_run(). Kills a command that was asked to end and does not. */
int remote_command_run(const struct remote_command *o, struct session_result *ret, struct error *e);

#endif
