/* The guest's own addresses: those of its interfaces, as they come and go (Docker's bridges).
 * Programs reach them in the guest. All others, the routing table calls local too, for the route
 * that net_setup adds. */
#ifndef AGENT_NET_LOCAL_H
#define AGENT_NET_LOCAL_H

/* Tells net_lookup of them from now on. 0 or -errno. */
int net_local_open(void);

#endif
