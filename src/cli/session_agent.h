/* The peer of a session whose command runs in a sandbox of this process's own. */
#ifndef CLI_SESSION_AGENT_H
#define CLI_SESSION_AGENT_H

#include "cli/session.h"
#include "sandbox/agent_client.h"
#include "sandbox/sandbox.h"

/* The peer. The command is queued when the sandbox is ready, which it need not be yet. */
struct session_agent {
	struct sandbox *sandbox;
	struct agent_exec *exec; /* borrowed; NULL: it was queued */
};

extern const struct session_peer_ops session_agent_ops;

#endif
