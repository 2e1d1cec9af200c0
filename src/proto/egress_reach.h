/* Which addresses the connections of a worker (mayfly-egress) may lead to, whatever the worker asks
 * for. The daemon tells it the dialler (egress/dialler.h) as one message of this shape. Both come
 * from one build, or the size or magic number differ and the dialler keeps what it has. */
#ifndef PROTO_EGRESS_REACH_H
#define PROTO_EGRESS_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/net.h"

#define EGRESS_REACH_SOCKET "egress-reach.sock" /* in the sandbox's directory */

enum {
	EGRESS_REACH_MAGIC = 0x4d524331,
	EGRESS_REACH_NETS_MAX = 64,
	EGRESS_REACH_ENDS_MAX = 256 + 10 + 2, /* names, resolvers, proxies of the operator */
};

struct egress_reach_end {
	uint32_t address;
	uint16_t port;	   /* 0: any */
	uint16_t anywhere; /* 1: any address; the operator's proxy has a name */
};

struct egress_reach {
	uint32_t magic;
	uint32_t only_ends; /* 1: nothing else, as all goes through the operator's proxy */
	uint32_t net_count, end_count;
	struct net nets[EGRESS_REACH_NETS_MAX]; /* private ranges that the operator opened */
	struct egress_reach_end ends[EGRESS_REACH_ENDS_MAX]; /* that may be anywhere */
};

/* Whether a message is one. */
bool egress_reach_is_valid(const struct egress_reach *r, size_t bytes);

/* Whether the operator has named this end, so that it may be anywhere. */
bool egress_reach_has_end(const struct egress_reach *r, uint32_t address, uint16_t port);

/* Whether an address that is none of this host's own may be dialled. Nothing is while r is zeroed,
 * as the daemon has not spoken. */
bool egress_reach_has(const struct egress_reach *r, uint32_t address);

#endif
