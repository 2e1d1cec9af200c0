/* The peer of a session whose command runs in a sandbox of the daemon: Start as a stream of Connect
 * for its output, StreamInput for its input, and a third connection for what is said in between
 * (signals, the terminal's size, the sandbox's lease). */
#ifndef CLI_SESSION_REMOTE_H
#define CLI_SESSION_REMOTE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/remote.h"
#include "cli/session.h"

struct session_remote;

struct session_remote_options {
	const struct remote *remote; /* must outlive the session */
	int argc;
	char **argv;
	const char *workdir; /* or NULL */
	json_t *env;	     /* an object of strings, borrowed, or NULL */
	bool tty;	     /* of the size of ours */
	bool no_input;
	bool lease; /* keep the sandbox alive meanwhile */
};

/* Asks for the command to be started; the session sees whether it was. */
int session_remote_open(
	const struct session_remote_options *o, struct session_remote **ret, struct error *e);
/* The command goes on if it has not ended. NULL is fine. */
void session_remote_close(struct session_remote *s);

/* 0 until it has started. */
uint32_t session_remote_pid(const struct session_remote *s);
/* Blocks until the command has started, without a session. */
int session_remote_wait_started(struct session_remote *s, struct error *e);

extern const struct session_peer_ops session_remote_ops; /* the peer is the session_remote */

#endif
