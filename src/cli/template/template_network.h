/* The network of RUN. The microVMs of a build get the network that sandboxes of the template would
 * have. */
#ifndef CLI_TEMPLATE_NETWORK_H
#define CLI_TEMPLATE_NETWORK_H

#include "build/machine.h"
#include "policy/network_policy.h"

struct template_network {
	struct network_floors floors; /* the operator's and the key's; borrowed.
				       * template_network_get() sets `template` */
	struct machine_network machine;
};

/* Implements builder_ops.network. list: the template's network list (policy/network_list.h). It is
 * borrowed as long as the result is used. The result lies in n. Returns NULL if operator, key or
 * template turn the network off. */
const struct machine_network *template_network_get(struct template_network *n, const char *list);

#endif
