/* Tells the dialler of a sandbox's worker what it may reach (proto/egress_reach.h). */
#ifndef NETWORK_REACH_TELL_H
#define NETWORK_REACH_TELL_H

#include "proto/egress_reach.h"

/* Before the worker gets the policy that this belongs to. A worker of an earlier version has no
 * dialler, which is fine. Does not wait. Returns 0 or -errno. */
int reach_tell(int dirfd, const struct egress_reach *reach);

#endif
