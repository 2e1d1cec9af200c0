/* Joins two stream sockets: the bytes of each go to the other. Each direction ends on its own. Each
 * has a bounded buffer for bytes that the receiver does not take yet. When all relays together hold
 * RELAY_HELD_MAX, they read in small pieces, so the sum grows little more. */
#ifndef AGENT_RELAY_H
#define AGENT_RELAY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "loop.h"

enum {
	RELAY_SLICE = 64 * 1024,    /* bytes of one read; a buffer's maximum must not be smaller */
	RELAY_SLICE_MIN = 4 * 1024, /* bytes of one read when RELAY_HELD_MAX is reached */
	RELAY_HELD_MAX = 8 << 20,
};

struct relay_half {
	struct buf held; /* what the receiver has not taken yet */
	size_t counted;	 /* bytes of it that the sum of all relays includes */
	bool ended;	 /* no more bytes will come */
	bool shut;	 /* the end was passed on to the receiver */
};

struct relay {
	struct source near, far; /* owned */
	struct relay_half to_near, to_far;
	/* Called at the end: both directions have ended, or, with `broken`, one of the sockets is
	 * gone. The owner must call relay_close(). */
	void (*over)(struct relay *r, bool broken);
	bool far_may_go; /* if far has ended and cannot be written to either, it is gone; this is
			  * not taken for a half-close */
};

/* Makes a relay without sockets, with empty buffers of these maxima. */
void relay_init(struct relay *r, size_t to_near_max, size_t to_far_max);

/* Joins the two open sources and sends what the buffers hold. May call `over` before it returns. */
void relay_run(struct relay *r, void (*over)(struct relay *r, bool broken));

/* Closes both sockets and frees the buffers. */
void relay_close(struct relay *r);

#endif
