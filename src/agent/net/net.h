/* The guest's network, which has no card: each connection of a program becomes a stream to the host
 * (docs/egress-protocol.md). net_setup makes the interface and the route. net_lookup and net_local
 * redirect programs' connections to the agent. net_rules and net_queue let connections wait for the
 * host's answer. net_flow and net_udp talk with the host. */
#ifndef AGENT_NET_H
#define AGENT_NET_H

/* Sets everything up in the agent's loop. Call it once, before programs run, so that snapshots
 * contain it. If the kernel lacks something, prints that on the console and goes on without it. */
void net_open(void);

#endif
