/* The contract of AgentCore's containers: a program that listens answers GET /ping with 200 and
 * {"status": "Healthy"} or "HealthyBusy" when it can be asked. */
#ifndef SANDBOX_ENTRY_PING_H
#define SANDBOX_ENTRY_PING_H

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/guest_http.h"

enum { ENTRY_PING_BODY_MAX = 4096 };

/* Asks once whether the program is ready. A program without /ping (404, 405, 501) is ready, because
 * it listens, and so is one that answers 200 without that status. Returns false if there is no
 * whole answer (guest_http.h). Blocks. */
bool entry_ping(const struct guest_dialler *d, uint16_t port);

#endif
