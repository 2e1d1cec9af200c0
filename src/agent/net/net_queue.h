/* The queue of packets that wait for the host's answer (NFQUEUE, net_rules.h). The kernel keeps
 * them, also over a snapshot. */
#ifndef AGENT_NET_QUEUE_H
#define AGENT_NET_QUEUE_H

#include <stddef.h>
#include <stdint.h>

enum net_verdict {
	NET_PASS,	/* goes on unchanged */
	NET_FORGET,	/* is dropped; the kernel sends it again, in the end ETIMEDOUT */
	NET_REFUSED,	/* ECONNREFUSED */
	NET_HOST,	/* EHOSTUNREACH */
	NET_NET,	/* ENETUNREACH */
	NET_PROHIBITED, /* EHOSTUNREACH */
};

/* `arrived` gets each packet: its id, and its first bytes from the IP header on. 0 or -errno. */
int net_queue_open(void (*arrived)(uint32_t id, const uint8_t *packet, size_t len));

/* Gives a packet back. Nothing happens if the kernel no longer has it. */
void net_queue_give(uint32_t id, enum net_verdict v);

#endif
