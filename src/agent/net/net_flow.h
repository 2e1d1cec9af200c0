/* TCP connections of the guest's programs, each joined with a stream to the host.
 *
 * The first packet of a connection waits in the kernel (net_queue.h) while the host is asked. Its
 * answer decides what the program's connect() returns. If it is yes, the packet goes on, and the
 * connection that arrives belongs to the stream. A packet that waits is asked for again when the
 * stream breaks, as after a restore. A connection that arrives without having waited, because the
 * rules are missing, is asked for then, and reset if the answer is no. */
#ifndef AGENT_NET_FLOW_H
#define AGENT_NET_FLOW_H

#include <stddef.h>
#include <stdint.h>

enum {
	NET_FLOWS_MAX = 512, /* that wait or are joined; more are refused */
	NET_ASK_MAX = 6,     /* times that one packet is asked for, as its streams break */
};

/* Accepts from the listening socket from now on; takes it over, also on failure. 0 or -errno. */
int net_flow_open(int listener);

/* For net_queue_open. Answers a ping, too: to an address out there it is prohibited. */
void net_flow_packet(uint32_t id, const uint8_t *packet, size_t len);

#endif
