/* Starts mayfly-egress, the worker for the flows of one sandbox (docs/egress-protocol.md).
 *
 * Descriptor 3 is the far end of the sandbox's egress channel, 4 a listening Unix stream socket for
 * the daemon. Descriptors from 5 on are the CA files that exist: EGRESS_ROOTS, the operator's. The
 * worker reads them when it first intercepts a connection. The socket is `egress.sock` in the
 * sandbox's directory; stderr goes to `egress.log`. The worker is jailed as the microVMs are, but
 * keeps the host's network. */
#ifndef SANDBOX_EGRESS_SPAWN_H
#define SANDBOX_EGRESS_SPAWN_H

#include <sys/types.h>

#include "base/error.h"

/* Makes a channel: the VMM's end (vmm_launch.egress_fd, vmm_set_egress) and the far end, both
 * non-blocking. Some hundred streams may wait in it. */
int egress_channel(int *ret_vmm, int *ret_far, struct error *e);

#define EGRESS_ROOTS "/etc/ssl/certs/ca-certificates.crt"

/* Starts a worker. dirfd and far_fd are borrowed. roots: path of the operator's file of further
 * authorities, or NULL; if it cannot be opened, the worker starts without it. The caller waits for
 * *ret, which is its child. An older egress.sock is replaced. Blocks for milliseconds. */
int egress_spawn(int dirfd, int far_fd, const char *roots, pid_t *ret, struct error *e);

#endif
