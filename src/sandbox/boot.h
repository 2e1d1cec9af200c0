/* Waits for a microVM that boots a kernel, or goes on from a saved state, until its agent
 * answers. */
#ifndef SANDBOX_BOOT_H
#define SANDBOX_BOOT_H

#include <stdint.h>

#include "base/error.h"
#include "image/progress.h"
#include "sandbox/agent_client.h"
#include "sandbox/launch.h"

enum { BOOT_S = 120 };

struct boot {
	const char *name; /* of the template that is made, for messages */
	const char *step; /* "boot", or what else it does, for progress */
	struct vmm *vmm;
	int fd; /* the microVM's directory */
};

/* Blocks until the agent is ready. deadline_ns: CLOCK_MONOTONIC. Errors are the guest's, as
 * those of prepare_snapshot. */
int boot_await(const struct boot *b, uint64_t deadline_ns, const struct progress *p,
	struct agent_conn **ret, struct error *e);

#endif
