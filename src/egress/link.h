/* The worker's connection with the daemon: lines of JSON on a stream socket. The newest client
 * counts as the daemon. Up to LINK_OUT_MAX unsent bytes wait for this client or the next one. A
 * descriptor may come with a line of the daemon. */
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
	LINK_OUT_ENOUGH = 32 << 10, /* so many bytes are sent before the turn's end */
	LINK_FDS_MAX = 4
};

struct link {
	struct loop *loop;
	struct loop_watch listener, client;
	struct loop_timer after; /* sends at the end of this turn */
	struct buf in, out;
	int fds[LINK_FDS_MAX]; /* fd_count descriptors of lines that on_line has not got yet */
	unsigned fd_count;
	size_t sent;		      /* bytes of the first line in out; a new client gets it
				       * whole */
	void (*on_client)(void *arg); /* a new client has come */
	void (*on_line)(void *arg, char *line, size_t n); /* without line feed; not
							   * NUL-terminated */
	void *arg;
};

/* clients_fd: where connections of the daemon come from (broker_take). Borrowed. 0 or -errno. */
int link_init(struct link *k, struct loop *l, int clients_fd);
void link_done(struct link *k);

/* Whether a daemon is there. */
bool link_has_client(const struct link *k);

/* Appends a line (with line feed). It is sent at the end of the turn, so that flows are served
 * first. Returns 0, or -EMSGSIZE if too much waits; then the line is lost. */
int link_send(struct link *k, const struct buf *line);

/* Whether at least half of LINK_OUT_MAX waits. Then lines that are not needed should be left
 * out. */
bool link_is_slow(const struct link *k);

/* In on_line: returns the descriptor that came with the line, or -1. The caller owns it. */
int link_take_fd(struct link *k);

#endif
