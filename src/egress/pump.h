/* Moves bytes of a flow in one direction, from a socket to another. What the receiver does not take waits
 * here, PUMP_HELD_MAX bytes at most; then nothing more is read. */
#ifndef EGRESS_PUMP_H
#define EGRESS_PUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct pump {
	struct buf held;
	bool ended; /* the sender has ended its direction */
	bool shut;  /* and the receiver was told, after all bytes */
	uint64_t bytes;
};

enum pump_end {
	PUMP_GOES_ON,
	PUMP_FROM_FAILED, /* the sender's side: errno */
	PUMP_TO_FAILED,	  /* the receiver's: errno */
};

/* space: for bytes between two calls; held has at most as many. */
void pump_init(struct pump *p, size_t space_bytes);
void pump_done(struct pump *p);

/* Moves what can be moved now, up to some hundred KiB. */
enum pump_end pump_run(struct pump *p, int from, int to, uint8_t *space, size_t space_bytes);

static inline bool pump_wants_read(const struct pump *p)
{
	return !p->ended && buf_len(&p->held) == 0;
}

static inline bool pump_wants_write(const struct pump *p)
{
	return buf_len(&p->held) > 0;
}

#endif
