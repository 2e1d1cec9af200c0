/* Starts mayfly-egress, the worker for the flows of one sandbox (docs/egress-protocol.md).
 *
 * Descriptor 3 is the far end of the sandbox's egress channel, 4 a listening Unix stream socket for
 * the daemon. Descriptors from 5 on are the CA files that exist: EGRESS_ROOTS, the operator's. The
 * worker reads them when it first intercepts a connection. The socket is `egress.sock` in the
 * sandbox's directory; stderr goes to `egress.log`. The worker is jailed as the microVMs are, but
 * keeps the host's network.
 *
 * It is in the sandbox's control group, if there is one. Its private memory is bounded by the
 * guest's (cgroup_worker_bytes()), and the kernel prefers it to the VMM when memory is out. */
#ifndef SANDBOX_EGRESS_SPAWN_H
#define SANDBOX_EGRESS_SPAWN_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* Makes a channel: the VMM's end (vmm_launch.egress_fd, vmm_set_egress) and the far end, both
 * non-blocking. Some hundred streams may wait in it. */
int egress_channel(int *ret_vmm, int *ret_far, struct error *e);

#define EGRESS_ROOTS "/etc/ssl/certs/ca-certificates.crt"

/* Whose worker it is. */
struct egress_owner {
	int dirfd;	       /* borrowed */
	const char *id;	       /* of the sandbox, to find its group; NULL: of a microVM without */
	uint64_t memory_bytes; /* of the guest; 0: not known, the worker has CGROUP_WORKER_MAX */
};

/* Starts a worker. far_fd is borrowed. roots: path of the operator's file of further
 * authorities, or NULL; if it cannot be opened, the worker starts without it. The caller waits for
 * *ret, which is its child. An older egress.sock is replaced. Blocks for milliseconds. */
int egress_spawn(
	const struct egress_owner *o, int far_fd, const char *roots, pid_t *ret, struct error *e);

#endif
