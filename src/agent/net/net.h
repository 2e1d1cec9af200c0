/* The guest's network, which has no card: each connection of a program becomes a stream to the host
 * (docs/egress-protocol.md). net_setup makes the interface and route. net_lookup and net_local lead
 * what programs send to the agent. net_rules and net_queue let connections wait for the host's
 * answer. net_flow and net_udp talk with the host. */
#ifndef AGENT_NET_H
#define AGENT_NET_H

/* Sets all up, in the loop; once, before programs run, so a snapshot holds it. What is missing is
 * said on the console, and the guest goes on without. */
void net_open(void);

#endif
