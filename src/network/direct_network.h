/* The network of a microVM that `mayfly run` or a build owns: does for one what the daemon does for
 * its sandboxes (egress.h). A thread starts mayfly-egress when the guest opens the first flow,
 * tells it the policy, and starts another one when that has ended. */
#ifndef NETWORK_DIRECT_NETWORK_H
#define NETWORK_DIRECT_NETWORK_H

#include <jansson.h>

#include "base/error.h"
#include "policy/network_policy.h"

struct direct_network;

/* floors: what is above the sandbox; what they point to is borrowed until the end. network: as in a
 * creation; it is checked. *ret_vmm_fd is the VMM's end of the channel, which the caller closes
 * after handing it over. */
int direct_network_open(const struct network_floors *floors, const json_t *network,
	struct direct_network **ret, int *ret_vmm_fd, struct error *e);

/* Serves the sandbox in this directory, borrowed until the end, as `floor` is: what its template
 * may reach at most (network_list.h), in place of floors->template. Once at most. */
int direct_network_start(struct direct_network *n, int dirfd, const char *floor, struct error *e);

/* Ends the worker and waits for it. NULL is fine. */
void direct_network_close(struct direct_network *n);

#endif
