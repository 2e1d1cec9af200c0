/* Follows the guest's own addresses, those of its interfaces, as they come and go (Docker's
 * bridges, for example). Connections to them stay in the guest. The routing table cannot tell them
 * apart, since net_setup's route makes every address local. */
#ifndef AGENT_NET_LOCAL_H
#define AGENT_NET_LOCAL_H

/* From now on reports them to net_lookup. 0 or -errno. */
int net_local_open(void);

#endif
