/* Connects to the first of some addresses that answers, one after the other, as a program would. */
#ifndef EGRESS_DIAL_H
#define EGRESS_DIAL_H

#include "egress/dns.h"
#include "egress/loop.h"

struct dial {
	struct loop *loop;
	struct loop_watch watch;
	struct loop_timer timer;
	uint32_t addresses[DNS_ADDRESSES_MAX];
	unsigned count, at;
	uint16_t port;
	unsigned ms; /* for each */
	void (*done)(void *arg, int fd, uint32_t address);
	void *arg;
};

/* `done` gets a connected socket, non-blocking, and the address, or -errno: one that a program may
 * get (egress_wire.h). Not before this returns. ms: for all together. */
void dial_start(struct dial *d, struct loop *l, const uint32_t *addresses, unsigned count,
	uint16_t port, unsigned ms);

void dial_stop(struct dial *d);

#endif
