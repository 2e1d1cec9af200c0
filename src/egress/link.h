/* The worker's connection with the daemon: lines of JSON on a stream socket. The newest client is
 * the daemon. What cannot be sent waits, up to LINK_OUT_MAX bytes, for this client or the next. A
 * line of the daemon may have a descriptor with it. */
#ifndef EGRESS_LINK_H
#define EGRESS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "egress/loop.h"

enum {
	LINK_LINE_MAX = 1 << 20,
	LINK_OUT_MAX = 256 << 10,
	LINK_OUT_ENOUGH = 32 << 10, /* bytes that do not wait for the turn's end */
	LINK_FDS_MAX = 4
};

struct link {
	struct loop *loop;
	struct loop_watch listener, client;
	struct loop_timer after; /* what was said in this turn goes out */
	struct buf in, out;
	int fds[LINK_FDS_MAX]; /* the first fd_count: those of lines that were not handed out */
	unsigned fd_count;
	size_t sent;		      /* of the first line in out: a new client gets it whole */
	void (*on_client)(void *arg); /* a new one is there */
	void (*on_line)(void *arg, char *line, size_t n); /* without its end; not NUL-terminated */
	void *arg;
};

/* listen_fd is borrowed. 0 or -errno. */
int link_init(struct link *k, struct loop *l, int listen_fd);
void link_done(struct link *k);

/* Whether a daemon is there. */
bool link_has_client(const struct link *k);

/* Appends a line (with its end), which goes out at the end of the turn: first what a flow waits
 * for. 0, or -EMSGSIZE when too much waits: it is lost. */
int link_send(struct link *k, const struct buf *line);

/* Whether half of what may wait does: what is not needed should be left out. */
bool link_is_slow(const struct link *k);

/* For on_line: the descriptor that came with the line, the caller's; -1: none. */
int link_take_fd(struct link *k);

#endif
