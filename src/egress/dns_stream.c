#include "egress/dns_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "egress/answers.h"

enum {
	LENGTH_BYTES = 2,
	QUESTION_MAX = 600, /* header, name, EDNS with some options */
	ANSWER_MAX = LENGTH_BYTES + 1024,
};

struct dns_stream {
	struct context *context;
	struct loop_watch *stream;
	bool waits; /* for the answer to `ask` */
	bool over;
	struct answers_ask ask;
	struct buf in, out;
};

static void put_answer(struct dns_stream *s, const struct dns_answer *a)
{
	static const uint8_t length[LENGTH_BYTES];
	size_t n;
	uint8_t *p;

	if (buf_add(&s->out, length, sizeof(length)) < 0 ||
		dns_put_answer(&s->out, &s->ask.question, a, DNS_MESSAGE_MAX) < 0) {
		s->over = true;
		return;
	}
	n = buf_len(&s->out) - LENGTH_BYTES;
	p = s->out.data + s->out.start;
	p[0] = (uint8_t)(n >> 8);
	p[1] = (uint8_t)n;
}

static void flush(struct dns_stream *s)
{
	ssize_t n;

	if (!buf_len(&s->out))
		return;
	n = fd_send_peer(s->stream->fd, buf_head(&s->out), buf_len(&s->out));
	if (n < 0)
		s->over = s->over || errno != EAGAIN;
	else
		buf_consume(&s->out, (size_t)n);
}

static void on_answer(void *arg, const struct dns_answer *a)
{
	struct dns_stream *s = arg;

	s->waits = false;
	put_answer(s, a);
	/* dns_stream_run sends it, and looks at what was read already */
	loop_change(&s->context->loop, s->stream, EPOLLIN | EPOLLOUT);
}

/* Takes one question that is whole. Returns whether there was one. */
static bool take(struct dns_stream *s)
{
	const uint8_t *p = buf_head(&s->in);
	struct dns_answer a;
	size_t n;

	if (buf_len(&s->in) < LENGTH_BYTES)
		return false;
	n = (size_t)p[0] << 8 | p[1];
	if (n > QUESTION_MAX)
		s->over = true;
	if (s->over || buf_len(&s->in) < LENGTH_BYTES + n)
		return false;
	s->ask.done = on_answer;
	s->ask.arg = s;
	switch (answers_begin(s->context, &s->ask, p + LENGTH_BYTES, n, &a)) {
	case ANSWERS_NOW:
		put_answer(s, &a);
		break;
	case ANSWERS_LATER:
		s->waits = true;
		break;
	case ANSWERS_NONE:
		s->over = true;
		break;
	}
	buf_consume(&s->in, LENGTH_BYTES + n);
	return true;
}

static void read_some(struct dns_stream *s)
{
	uint8_t *p = buf_reserve(&s->in, QUESTION_MAX);
	ssize_t n = p ? recv(s->stream->fd, p, QUESTION_MAX, 0) : 0;

	if (n > 0)
		buf_commit(&s->in, (size_t)n);
	else if (n == 0 || errno != EAGAIN)
		s->over = true;
}

static uint32_t events_of(const struct dns_stream *s)
{
	if (buf_len(&s->out))
		return EPOLLOUT;
	return s->waits ? 0 : EPOLLIN;
}

bool dns_stream_run(struct dns_stream *s, uint32_t events)
{
	if (events & (EPOLLHUP | EPOLLERR))
		return false;
	flush(s);
	if (events & EPOLLIN && !s->waits && !buf_len(&s->out) && buf_len(&s->in) < QUESTION_MAX)
		read_some(s);
	while (!s->over && !s->waits && !buf_len(&s->out) && take(s))
		flush(s);
	loop_change(&s->context->loop, s->stream, events_of(s));
	return !s->over;
}

struct dns_stream *dns_stream_make(struct context *c, struct loop_watch *stream)
{
	struct dns_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->context = c;
	s->stream = stream;
	buf_init(&s->in, 2 * (QUESTION_MAX + LENGTH_BYTES));
	buf_init(&s->out, ANSWER_MAX);
	return s;
}

void dns_stream_free(struct dns_stream *s)
{
	if (!s)
		return;
	if (s->waits)
		answers_cancel(&s->ask);
	buf_done(&s->in);
	buf_done(&s->out);
	free(s);
}
