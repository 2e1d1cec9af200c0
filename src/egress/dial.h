/* Tries some addresses one after the other, as a program would, and connects to the first that
 * answers. */
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
	unsigned ms; /* for each address */
	void (*done)(void *arg, int fd, uint32_t address);
	void *arg;
};

/* Starts. `done` gets a connected, non-blocking socket and its address, or -errno. The errno is one
 * that a program may get (egress_wire.h). `done` is called after this returns. ms: time for all
 * addresses together. */
void dial_start(struct dial *d, struct loop *l, const uint32_t *addresses, unsigned count,
	uint16_t port, unsigned ms);

void dial_stop(struct dial *d);

#endif
