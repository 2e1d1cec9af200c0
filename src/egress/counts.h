/* What flows and bytes there were, told to the daemon about once a second while something happens:
 * {"counts": {...}}, what is new since the last one (docs/egress-protocol.md). Records of flows may
 * be lost, these are not: without a daemon they add up. */
#ifndef EGRESS_COUNTS_H
#define EGRESS_COUNTS_H

#include <stdint.h>

#include "egress/context.h"

enum { COUNTS_MS = 1000 };

void counts_init(struct context *c);

/* Bytes of a flow: `total` of them so far, `*told` of which were counted before. */
void counts_bytes(
	struct context *c, uint64_t up, uint64_t *told_up, uint64_t down, uint64_t *told_down);
/* A flow has ended, or a question was denied. */
void counts_verdict(struct context *c, const char *verdict);

/* Tells what there is, if a daemon is there. */
void counts_tell(struct context *c);

#endif
