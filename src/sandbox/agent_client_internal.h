/* What the files of agent_client share: a connection. */
#ifndef SANDBOX_AGENT_CLIENT_INTERNAL_H
#define SANDBOX_AGENT_CLIENT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "proto/agent_wire.h"
#include "sandbox/agent_client.h"
#include "sandbox/agent_replies.h"

enum conn_phase {
	PHASE_PREAMBLE, /* the microVM has not answered CONNECT yet */
	PHASE_OPEN,
	PHASE_EOF,    /* the agent closed; what was received is still handed out */
	PHASE_BROKEN, /* the agent broke the protocol: nothing more is read */
};

struct agent_conn {
	int fd;
	enum conn_phase phase;
	bool refused; /* the microVM said ERR */
	struct agent_rx rx;
	struct buf out;
	struct agent_replies replies;
	unsigned frames_left; /* of the share: see agent_set_share() */
	size_t bytes_left;
	bool spent;
	bool attaching;	  /* an ATTACH is queued: its STARTED opens the input */
	bool stdin_open;  /* a stream that takes STDIN is queued or running */
	size_t in_flight; /* STDIN bytes sent and not acknowledged */
};

#endif
