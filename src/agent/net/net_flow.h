/* TCP connections of the guest's programs, each joined with a stream to the host.
 *
 * The first packet of a connection waits in the kernel (net_queue.h) while the host is asked. The
 * host's answer decides what the program's connect() returns. If the host allows it, the agent lets
 * the packet go on, and joins the connection that then arrives with the stream. If the stream
 * breaks while the packet waits, as after a restore, the agent asks again. If the rules are
 * missing, a connection arrives without having waited. The agent then asks the host, and resets the
 * connection if the host refuses. */
#ifndef AGENT_NET_FLOW_H
#define AGENT_NET_FLOW_H

#include <stddef.h>
#include <stdint.h>

enum {
	NET_FLOWS_MAX = 512, /* that wait or are joined; more are refused */
	NET_ASK_MAX = 6,     /* times that the agent asks for one packet when its streams break */
};

/* Accepts from the listening socket from now on; takes it over, also on failure. 0 or -errno. */
int net_flow_open(int listener);

/* The callback for net_queue_open. Also handles pings (ICMP echo requests): pings to outside
 * addresses are prohibited. */
void net_flow_packet(uint32_t id, const uint8_t *packet, size_t len);

#endif
