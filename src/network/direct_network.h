/* The network of a microVM that `mayfly run` or a build owns. It does for one microVM what the
 * daemon does for its sandboxes (egress.h). A thread starts mayfly-egress when the guest opens the
 * first flow, and tells it the policy. It starts a new one when that has ended. What a rule
 * asks a person is denied, unless the owner answers. */
#ifndef NETWORK_DIRECT_NETWORK_H
#define NETWORK_DIRECT_NETWORK_H

#include <jansson.h>

#include "base/error.h"
#include "policy/network_policy.h"

struct direct_network;

/* floors: the policies above the sandbox's; all that they point to is borrowed until the end.
 * network: a network object, which is checked here. *ret_vmm_fd is the VMM's end of the channel.
 * The caller hands it to the VMM and then closes it. */
int direct_network_open(const struct network_floors *floors, const json_t *network,
	struct direct_network **ret, int *ret_vmm_fd, struct error *e);

enum { DIRECT_QUESTION_MAX = 32 * 1024 };

/* Before the start: the caller answers what rules ask people. *ret_fd, the caller's from then on,
 * is a SEQPACKET socket. A message from it is a JSON object of DIRECT_QUESTION_MAX bytes at most:
 * {"worker": n, "ask": ...} with what worker n asks (docs/egress-protocol.md), or {"worker": n,
 * "gone": true}: nothing of that one waits any more. The answer to a question is {"worker": n,
 * "ask": {"id", "decision", "reason"}}; one to a worker that is gone is ignored. Questions that
 * find the socket full are denied, and so are those that come after it was closed. */
int direct_network_answer(struct direct_network *n, int *ret_fd, struct error *e);

/* Serves the sandbox in this directory. floor: the network list of its template
 * (policy/network_list.h), in place of floors->template. dirfd and floor are borrowed until the
 * end. Call it at most once. */
int direct_network_start(struct direct_network *n, int dirfd, const char *floor, struct error *e);

/* Ends the worker and waits for it. NULL is fine. */
void direct_network_close(struct direct_network *n);

#endif
