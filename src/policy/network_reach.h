/* Makes the reach of a worker's dialler (proto/egress_reach.h) from the worker's policy. */
#ifndef POLICY_NETWORK_REACH_H
#define POLICY_NETWORK_REACH_H

#include <jansson.h>

#include "proto/egress_reach.h"

/* policy: as of network_policy(). */
void network_reach(const json_t *policy, struct egress_reach *ret);

#endif
