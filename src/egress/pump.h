/* Moves bytes of a flow in one direction, from one socket to another. Bytes that the receiver does
 * not take wait here. While there are any, nothing more is read.
 *
 * Few bytes are copied. If many come at once, their pages move through a pipe (splice), which costs
 * half. */
#ifndef EGRESS_PUMP_H
#define EGRESS_PUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { PUMP_HELD_MAX = 64 << 10 };

/* Scratch space for all pumps of a loop. It is empty between two calls. */
struct pump_means {
	int pipe[2]; /* -1: none */
	uint8_t space[PUMP_HELD_MAX];
};

int pump_means_init(struct pump_means *m); /* 0 or -errno */
void pump_means_done(struct pump_means *m);

struct pump {
	struct buf held;
	bool ended; /* the sender has shut its direction down */
	bool shut;  /* the receiver was told, after all bytes */
	bool bulk;  /* much came at once */
	uint64_t bytes;
};

enum pump_end {
	PUMP_GOES_ON,
	PUMP_FROM_FAILED, /* reading failed, see errno */
	PUMP_TO_FAILED,	  /* writing failed, see errno */
};

void pump_init(struct pump *p);
void pump_done(struct pump *p);

/* Moves what can be moved now, up to a few hundred KiB. */
enum pump_end pump_run(struct pump *p, int from, int to, struct pump_means *m);

/* Writes held bytes only; reads nothing. */
enum pump_end pump_flush(struct pump *p, int to);

static inline bool pump_wants_read(const struct pump *p)
{
	return !p->ended && buf_len(&p->held) == 0;
}

static inline bool pump_wants_write(const struct pump *p)
{
	return buf_len(&p->held) > 0;
}

#endif
