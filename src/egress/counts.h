/* Counts flows and bytes. While something happens, the daemon is told about once a second what is
 * new: {"counts": {...}} (docs/egress-protocol.md). Records of flows may be lost, but counts are
 * not: without a daemon they add up. */
#ifndef EGRESS_COUNTS_H
#define EGRESS_COUNTS_H

#include <stdint.h>

#include "egress/context.h"

enum { COUNTS_MS = 1000 };

void counts_init(struct context *c);

/* Counts bytes of a flow. up and down are totals of the flow so far; *told_up and *told_down are
 * what was counted before. */
void counts_bytes(
	struct context *c, uint64_t up, uint64_t *told_up, uint64_t down, uint64_t *told_down);
/* A flow has ended, or a question was denied. */
void counts_verdict(struct context *c, const char *verdict);

/* Sends what is new, if a daemon is connected. */
void counts_tell(struct context *c);

#endif
