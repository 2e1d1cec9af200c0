/* A session's peer for a command in a sandbox that this process owns. */
#ifndef CLI_SESSION_AGENT_H
#define CLI_SESSION_AGENT_H

#include "cli/remote/session.h"
#include "sandbox/agent_client.h"
#include "sandbox/sandbox.h"

/* Queues the command once the sandbox is ready; it need not be ready at first. */
struct session_agent {
	struct sandbox *sandbox;
	struct agent_exec *exec; /* borrowed; NULL once queued */
};

extern const struct session_peer_ops session_agent_ops;

#endif
