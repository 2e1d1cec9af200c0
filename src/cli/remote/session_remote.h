/* A session's peer for a command in a sandbox of the daemon. Output comes through Start, a Connect
 * stream; input goes through StreamInput. A third connection carries signals, the terminal's size,
 * and renewals of the sandbox's lease. */
#ifndef CLI_SESSION_REMOTE_H
#define CLI_SESSION_REMOTE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/remote/remote.h"
#include "cli/remote/session.h"

struct session_remote;

struct session_remote_options {
	const struct remote *remote; /* must outlive the session */
	int argc;
	char **argv;
	const char *workdir; /* or NULL */
	json_t *env;	     /* an object of strings, borrowed, or NULL */
	bool tty;	     /* with the size of ours */
	bool no_input;
	bool lease; /* keep the sandbox alive meanwhile */
};

/* Asks the daemon to start the command. The session sees whether it did. */
int session_remote_open(
	const struct session_remote_options *o, struct session_remote **ret, struct error *e);
/* A command that has not ended goes on. NULL is fine. */
void session_remote_close(struct session_remote *s);

/* 0 until the command has started. */
uint32_t session_remote_pid(const struct session_remote *s);
/* Blocks until the command has started. For use without a session. */
int session_remote_wait_started(struct session_remote *s, struct error *e);

extern const struct session_peer_ops session_remote_ops; /* the peer is the session_remote */

#endif
