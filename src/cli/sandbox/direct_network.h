/* The network of a sandbox that `mayfly run` owns: does for one run what the daemon does for its
 * sandboxes (network/egress.h). A thread starts mayfly-egress when the guest opens the first flow,
 * tells it the policy, and starts another one when that has ended. */
#ifndef CLI_SANDBOX_DIRECT_NETWORK_H
#define CLI_SANDBOX_DIRECT_NETWORK_H

#include <jansson.h>

#include "base/error.h"

struct direct_network;

/* network: of network_options_body(). Checks it. *ret_vmm_fd is the VMM's end of the channel
 * (sandbox_options.egress_fd), which the caller closes after the launch. */
int direct_network_open(
	const json_t *network, struct direct_network **ret, int *ret_vmm_fd, struct error *e);

/* Serves the sandbox in this directory, borrowed until the end. floor: what its template may reach
 * at most (network_list.h). Once at most. */
int direct_network_start(struct direct_network *n, int dirfd, const char *floor, struct error *e);

/* Ends the worker and waits for it. NULL is fine. */
void direct_network_close(struct direct_network *n);

#endif
