/* Finds what differs between the files of two states. It merges two listings, both in the order of
 * agent_tree (proto/agent_wire.h), which arrive in pieces. Memory stays small however long they
 * are. The listings are a guest's word; a listing out of order is refused.
 *
 *	compare_add()	takes nodes of side 0 (before) or 1 (after) while it is not full
 *	compare_end()	after the last node of a side
 *	compare_next()	returns differences until it needs more nodes */
#ifndef FLEET_COMPARE_H
#define FLEET_COMPARE_H

#include <stdbool.h>

#include "base/error.h"
#include "proto/agent_wire.h"

enum { COMPARE_QUEUE_BYTES = 256 * 1024 }; /* queued per side: from there on the side is full */

enum compare_step {
	COMPARE_MORE,	 /* needs nodes of a side that has not ended */
	COMPARE_ADDED,	 /* only in `after` */
	COMPARE_DELETED, /* only in `before`; nodes below a deleted directory are not reported */
	COMPARE_CHANGED, /* type, permissions, owner, size, modification time or link target */
	COMPARE_UNSURE,	 /* a file with the same size and modification time, but another inode or
			 * change time: its contents may differ */
	COMPARE_DONE,
};

struct compare;

struct compare *compare_new(void);
void compare_free(struct compare *c); /* NULL is fine */

/* Returns -EBADMSG for a node out of order, -ENOMEM, or -EMSGSIZE when far beyond full. */
int compare_add(struct compare *c, unsigned side, const struct agent_node *n, struct error *e);
void compare_end(struct compare *c, unsigned side);
bool compare_is_full(const struct compare *c, unsigned side);

/* *ret is the node in question (that of `after` if both have it), valid until the next call. */
enum compare_step compare_next(struct compare *c, struct agent_node *ret);

#endif
