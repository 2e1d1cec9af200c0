/* What is different between the files of two states, told from two listings in the order of
 * agent_tree (proto/agent_wire.h) that come in pieces, side by side: little memory, however long
 * they are. The listings are a guest's word; one that is out of order is refused.
 *
 *	compare_add()	as nodes come, for side 0 (before) and 1 (after), while not full
 *	compare_end()	after the last of a side
 *	compare_next()	until it wants more */
#ifndef DAEMON_COMPARE_H
#define DAEMON_COMPARE_H

#include <stdbool.h>

#include "base/error.h"
#include "proto/agent_wire.h"

enum { COMPARE_QUEUE_BYTES = 256 * 1024 }; /* of a side: full from there on */

enum compare_step {
	COMPARE_MORE,	 /* of a side that has not ended */
	COMPARE_ADDED,	 /* `after` only */
	COMPARE_DELETED, /* `before` only; what was below a directory is not told */
	COMPARE_CHANGED, /* kind, permissions, owner, size, time of change, a link's text */
	COMPARE_UNSURE, /* a file whose size and time are the same, but which is another file or was
			 * changed in a way that these do not tell: contents may differ */
	COMPARE_DONE,
};

struct compare;

struct compare *compare_new(void);
void compare_free(struct compare *c); /* NULL is fine */

/* -EBADMSG out of order, -ENOMEM, -EMSGSIZE when far beyond full. */
int compare_add(struct compare *c, unsigned side, const struct agent_node *n, struct error *e);
void compare_end(struct compare *c, unsigned side);
bool compare_is_full(const struct compare *c, unsigned side);

/* *ret is the node told about (of `after` where there are two), valid until the next call. */
enum compare_step compare_next(struct compare *c, struct agent_node *ret);

#endif
