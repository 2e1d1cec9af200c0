/* A command in a sandbox, joined to this process's standard input, output, error and signals.
 *
 * One poll loop. Nothing is held in memory beyond one message of the agent's and its window of
 * standard input: a slow reader stops the command, as a pipe would. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "daemon/sandbox.h"
#include "vmm/agent_client.h"

enum { SESSION_GRACE_S = 10 }; /* between SIGTERM, SIGQUIT or a broken pipe and the VM's end */

struct session_options {
	struct sandbox *sandbox; /* ready, or restored just now */
	const struct agent_exec *exec;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: none */
};

struct session_result {
	int status;		  /* exit status for a shell: 128 + n for signal n */
	uint64_t first_output_ns; /* CLOCK_MONOTONIC, 0: there was none */
};

/* Starts exec in the sandbox and returns once it has ended and all its output is written. With
 * AGENT_EXEC_PTY and a terminal as standard input that is raw meanwhile. SIGINT, SIGTERM, SIGHUP,
 * SIGQUIT, SIGUSR1 and SIGUSR2 go to the command's process group; they stay blocked afterwards. A
 * failure (-errno, e filled) leaves the sandbox to be destroyed by the caller. */
int session_run(const struct session_options *o, struct session_result *ret, struct error *e);

#endif
