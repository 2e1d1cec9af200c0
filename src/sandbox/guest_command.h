/* Commands of a template, in a guest of it: as its user, in its directory, with its variables.
 * Where the image has no shell, they run as bare_command.h says.
 *
 * A command that cannot be run, an agent that does not answer until the deadline, and a lost
 * connection are errors; a status that is not 0 is none. All calls block. */
#ifndef SANDBOX_GUEST_COMMAND_H
#define SANDBOX_GUEST_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "image/config.h"
#include "sandbox/agent_client.h"
#include "sandbox/guest_http.h"
#include "sandbox/start_follow.h"

struct guest_commands {
	struct agent_conn *agent;	   /* borrowed */
	const struct image_config *config; /* user, directory, variables; borrowed */
	uint64_t deadline_ns;		   /* CLOCK_MONOTONIC */
	struct guest_dialler dialler;	   /* for ready commands that ask a port */
	struct start_follow *start;	   /* read while the ready command is awaited; or NULL */
};

/* Runs a command. flags: of AGENT_EXEC; tag: "" or one that it is found by. *ret is its exit status
 * or 128+n for a signal; with AGENT_EXEC_DETACHED, its process number as soon as it runs. */
int guest_command_run(const struct guest_commands *g, const char *command, unsigned flags,
	const char *tag, int *ret, struct error *e);

/* Returns when the command has started. Its output and its end come as events of g->agent. */
int guest_command_start(const struct guest_commands *g, const char *command, struct error *e);

/* Waits until the command that was started on the connection has ended or, if detached, runs. *ret
 * as above. */
int guest_command_await(
	struct agent_conn *agent, uint64_t deadline_ns, bool detached, int *ret, struct error *e);

/* Runs config->ready_command until it succeeds. What E2B's clients ask with theirs is answered
 * without a shell, too (bare_command.h). ERROR_TIMEOUT at the deadline, for a command that still
 * runs, too. If g->start fails first, its error. name: of the template, for messages. */
int guest_ready_await(const struct guest_commands *g, const char *name, struct error *e);

#endif
