/* The guest's own addresses: those of its interfaces, as they come and go (Docker's bridges).
 * Programs reach them in the guest. The routing table calls every address local, because of
 * net_setup's route; this list tells which really are. */
#ifndef AGENT_NET_LOCAL_H
#define AGENT_NET_LOCAL_H

/* Tells net_lookup of them from now on. 0 or -errno. */
int net_local_open(void);

#endif
