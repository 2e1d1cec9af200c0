/* The network of RUN: for each microVM of a build, what sandboxes of the template would have. */
#ifndef CLI_TEMPLATE_NETWORK_H
#define CLI_TEMPLATE_NETWORK_H

#include "build/machine.h"
#include "policy/network_policy.h"

struct template_network {
	struct network_floors floors; /* of operator and key; borrowed. `template` is set below */
	struct machine_network machine;
};

/* For builder_ops.network. list: what sandboxes of the template may reach (network_list.h);
 * borrowed as the result is, which lies in n. NULL: operator, key or template say that there is
 * none. */
const struct machine_network *template_network_get(struct template_network *n, const char *list);

#endif
