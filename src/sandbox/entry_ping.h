/* The contract of AgentCore's containers: a program that listens answers GET /ping with 200 and
 * {"status": "Healthy"} or "HealthyBusy" when it can be asked. */
#ifndef SANDBOX_ENTRY_PING_H
#define SANDBOX_ENTRY_PING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "sandbox/agent_client.h"

enum { ENTRY_PING_S = 5, ENTRY_PING_BODY_MAX = 4096 };

/* How a new connection to the guest's agent is made. */
struct entry_dialler {
	int (*dial)(void *arg, struct agent_conn **ret, struct error *e);
	void *arg;
};

/* Asks once whether the program is ready. A program without /ping (404, 405, 501) is ready, because
 * it listens, and so is one that answers 200 without that status. Returns false if there is no
 * whole answer within ENTRY_PING_S. Blocks. */
bool entry_ping(const struct entry_dialler *d, uint16_t port);

#endif
