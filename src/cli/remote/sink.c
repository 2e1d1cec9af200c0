#include "cli/remote/sink.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_again(int fd)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* fits */
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void sink_open(struct sink *s, int fd)
{
	struct stat st;

	*s = (struct sink){.fd = fd, .own = -1, .way = SINK_POLLED};
	buf_init(&s->pending, SINK_MAX);
	if (fstat(fd, &st) < 0)
		return; /* the first write says why */
	if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode))
		s->way = SINK_PLAIN;
	else if (S_ISSOCK(st.st_mode))
		s->way = SINK_SOCKET;
	else if ((s->own = open_again(fd)) >= 0)
		s->way = SINK_NONBLOCK;
}

void sink_close(struct sink *s)
{
	if (s->own >= 0)
		(void)close(s->own); /* written without buffering */
	s->own = -1;
	buf_done(&s->pending);
}

int sink_fd(const struct sink *s)
{
	return s->own >= 0 ? s->own : s->fd;
}

bool sink_is_pending(const struct sink *s)
{
	return buf_len(&s->pending) > 0;
}

static ssize_t write_polled(int fd, const void *data, size_t n)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	if (poll(&p, 1, 0) == 0) {
		errno = EAGAIN;
		return -1;
	}
	return write(fd, data, n < PIPE_BUF ? n : PIPE_BUF);
}

static ssize_t write_once(const struct sink *s, const void *data, size_t n)
{
	switch (s->way) {
	case SINK_SOCKET:
		return send(s->fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	case SINK_POLLED:
		return write_polled(s->fd, data, n);
	default:
		return write(sink_fd(s), data, n);
	}
}

/* How much was written: all of it, unless the reader has to catch up. */
static size_t write_some(struct sink *s, const uint8_t *data, size_t n)
{
	size_t done = 0;

	while (done < n && !s->closed && !s->err) {
		ssize_t w = write_once(s, data + done, n - done);

		if (w >= 0)
			done += (size_t)w;
		else if (errno == EAGAIN)
			return done;
		else if (errno == EPIPE || errno == ECONNRESET ||
			 (errno == EIO && s->way != SINK_PLAIN))
			s->closed = true; /* EIO: a terminal that hung up */
		else if (errno != EINTR)
			s->err = -errno;
	}
	return n; /* or dropped */
}

void sink_write(struct sink *s, const void *data, size_t n)
{
	size_t done;

	assert(!sink_is_pending(s) && n <= SINK_MAX);
	done = write_some(s, data, n);
	if (done < n && buf_add(&s->pending, (const uint8_t *)data + done, n - done) < 0)
		s->err = -ENOMEM;
}

void sink_flush(struct sink *s)
{
	buf_consume(&s->pending, write_some(s, buf_head(&s->pending), buf_len(&s->pending)));
}
