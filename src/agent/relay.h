/* Two stream sockets joined: bytes of each go to the other. Each direction has one bounded buffer,
 * for what the receiver does not take, and ends on its own. All relays together hold little more
 * than RELAY_HELD_MAX: beyond it, they read in small pieces. */
#ifndef AGENT_RELAY_H
#define AGENT_RELAY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "loop.h"

enum {
	RELAY_SLICE = 64 * 1024,    /* of one read; a buffer's maximum must not be smaller */
	RELAY_SLICE_MIN = 4 * 1024, /* when much is held */
	RELAY_HELD_MAX = 8 << 20,
};

struct relay_half {
	struct buf held; /* what the receiver has not taken yet */
	size_t counted;	 /* of it, in the sum of all relays */
	bool ended;	 /* no more bytes will come */
	bool shut;	 /* and the receiver was told so */
};

struct relay {
	struct source near, far; /* owned */
	struct relay_half to_near, to_far;
	/* The end: both directions have ended, or, `broken`, one of the sockets is gone. The owner
	 * closes the relay. */
	void (*over)(struct relay *r, bool broken);
	bool far_may_go; /* If far ends and cannot be written to either, that is no half-close: it
			  * is gone. */
};

/* Without sockets, with empty buffers of these maxima. */
void relay_init(struct relay *r, size_t to_near_max, size_t to_far_max);

/* Joins the two open sources and sends what the buffers hold. It may be over at once. */
void relay_run(struct relay *r, void (*over)(struct relay *r, bool broken));

/* Closes both sockets and frees the buffers. */
void relay_close(struct relay *r);

#endif
