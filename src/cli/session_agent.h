/* The peer of a session whose command runs in a sandbox of this process's own. */
#ifndef CLI_SESSION_AGENT_H
#define CLI_SESSION_AGENT_H

#include "cli/session.h"
#include "daemon/sandbox.h"
#include "vmm/agent_client.h"

/* The peer is the sandbox: ready, or restored just now, with an EXEC queued behind. */
extern const struct session_peer_ops session_agent_ops;

#endif
