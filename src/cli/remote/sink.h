/* Non-blocking standard output and error. Data that a slow reader cannot take yet stays in one
 * bounded buffer; meanwhile the caller takes nothing more from the sandbox.
 *
 * This process shares its descriptors with others (a shell's terminal), so it does not set
 * O_NONBLOCK on them. It reopens pipes and terminals for itself, and sends to sockets with
 * MSG_DONTWAIT. The rest (a pipe of another user) is polled before each small write. */
#ifndef CLI_SINK_H
#define CLI_SINK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { SINK_MAX = 512 * 1024 }; /* one message of the agent fits */

enum sink_way {
	SINK_PLAIN,    /* a file: writes do not wait */
	SINK_NONBLOCK, /* our own file description */
	SINK_SOCKET,
	SINK_POLLED,
};

struct sink {
	int fd;	 /* the caller's */
	int own; /* the reopened one, or -1 */
	enum sink_way way;
	bool closed; /* the reader has gone (EPIPE): all further data is dropped */
	int err;     /* -errno of another failure, sticky */
	struct buf pending;
};

void sink_open(struct sink *s, int fd);
void sink_close(struct sink *s);

/* Writes as much as possible and keeps the rest. Call it only if nothing is pending. */
void sink_write(struct sink *s, const void *data, size_t n);
/* Writes more of the pending data. Call it when poll() reports POLLOUT for sink_fd(). */
void sink_flush(struct sink *s);
bool sink_is_pending(const struct sink *s);
int sink_fd(const struct sink *s);

#endif
