#include "egress/why_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "egress/why.h"

struct why_stream {
	struct context *context;
	struct loop_watch *stream;
	struct why *why;
	struct buf out;
	bool answered; /* all is in out, or was sent */
};

struct why_stream *why_stream_make(struct context *c, struct loop_watch *stream, const char *denial)
{
	struct why_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->context = c;
	s->stream = stream;
	buf_init(&s->out, WHY_ANSWER_MAX);
	s->why = why_new(denial);
	if (!s->why) {
		free(s);
		return NULL;
	}
	return s;
}

void why_stream_free(struct why_stream *s)
{
	if (!s)
		return;
	why_free(s->why);
	buf_done(&s->out);
	free(s);
}

/* Reads and drops what follows the request, until the guest ends its direction, because closing
 * with unread bytes would be a reset. */
static bool take(struct why_stream *s)
{
	struct context *c = s->context;
	ssize_t n = recv(s->stream->fd, c->means.space, sizeof(c->means.space), 0);

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	if (!s->answered)
		s->answered = why_take(s->why, &c->denials, c->means.space, (size_t)n, &s->out);
	return true;
}

/* #calls egress: shutdown */
static bool flush(struct why_stream *s)
{
	ssize_t n;

	if (!buf_len(&s->out))
		return true;
	n = fd_send_peer(s->stream->fd, buf_head(&s->out), buf_len(&s->out));
	if (n < 0)
		return errno == EAGAIN;
	buf_consume(&s->out, (size_t)n);
	return buf_len(&s->out) || shutdown(s->stream->fd, SHUT_WR) == 0;
}

bool why_stream_run(struct why_stream *s, uint32_t events)
{
	if (events & (EPOLLHUP | EPOLLERR) || !take(s) || !flush(s))
		return false;
	loop_change(&s->context->loop, s->stream, buf_len(&s->out) ? EPOLLIN | EPOLLOUT : EPOLLIN);
	return true;
}
