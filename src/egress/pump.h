/* Moves bytes of a flow in one direction, from a socket to another. What the receiver does not take
 * waits here, PUMP_HELD_MAX bytes at most; then nothing more is read.
 *
 * A few bytes are copied. When much comes at once, its pages go through a pipe (splice), which
 * costs half. */
#ifndef EGRESS_PUMP_H
#define EGRESS_PUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { PUMP_HELD_MAX = 64 << 10 };

/* Serves all pumps of a loop in turn: between two calls, nothing is in it. */
struct pump_means {
	int pipe[2]; /* -1: none */
	uint8_t space[PUMP_HELD_MAX];
};

int pump_means_init(struct pump_means *m); /* 0 or -errno */
void pump_means_done(struct pump_means *m);

struct pump {
	struct buf held;
	bool ended; /* the sender has ended its direction */
	bool shut;  /* and the receiver was told, after all bytes */
	bool bulk;  /* much came at once */
	uint64_t bytes;
};

enum pump_end {
	PUMP_GOES_ON,
	PUMP_FROM_FAILED, /* the sender's side: errno */
	PUMP_TO_FAILED,	  /* the receiver's: errno */
};

void pump_init(struct pump *p);
void pump_done(struct pump *p);

/* Moves what can be moved now, up to some hundred KiB. */
enum pump_end pump_run(struct pump *p, int from, int to, struct pump_means *m);

/* Only what is held; reads nothing. */
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
