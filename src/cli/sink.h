/* Standard output and error without blocking: what a slow reader cannot take yet stays in one
 * bounded buffer, and the caller takes nothing more from the sandbox meanwhile.
 *
 * The descriptors of this process are shared with others (a shell's terminal), so O_NONBLOCK is not
 * set on them: pipes and terminals are opened once more for ourselves, sockets are sent to with
 * MSG_DONTWAIT, and what is left (a pipe of another user's) is polled before each small write. */
#ifndef CLI_SINK_H
#define CLI_SINK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { SINK_MAX = 512 * 1024 }; /* one message of the agent's fits */

enum sink_way {
	SINK_PLAIN,    /* a file: writes do not wait */
	SINK_NONBLOCK, /* our own description */
	SINK_SOCKET,
	SINK_POLLED,
};

struct sink {
	int fd;	 /* of the caller */
	int own; /* opened once more, or -1 */
	enum sink_way way;
	bool closed; /* the reader is gone (EPIPE): everything further is dropped */
	int err;     /* -errno of another failure, sticky */
	struct buf pending;
};

void sink_open(struct sink *s, int fd);
void sink_close(struct sink *s);

/* Writes what can be written and keeps the rest; only when nothing is pending. */
void sink_write(struct sink *s, const void *data, size_t n);
/* Writes more of what is pending, when poll() has said POLLOUT for sink_fd(). */
void sink_flush(struct sink *s);
bool sink_is_pending(const struct sink *s);
int sink_fd(const struct sink *s);

#endif
