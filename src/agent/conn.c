#include "conn.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#include "guest.h"

enum { JOINED_MAX = 8, PREAMBLE_MAX = 32, SERVICE_MAX = 4 };

static struct source listener = {.fd = -1};
static bool listener_vsock;
static conn_handler handle_request;
static struct conn *conns, *dirty;
static unsigned conn_count;

/* --- output --- */

/* Handles its input and output after this round. */
static void touch(struct conn *c)
{
	if (c->dirty || c->dead)
		return;
	c->dirty = true;
	c->next_dirty = dirty;
	dirty = c;
}

bool conn_has_room(const struct conn *c)
{
	return !c->full && buf_len(&c->out) < CONN_ROOM;
}

static void queued(struct conn *c, int r)
{
	if (r < 0) {
		conn_close(c);
		return;
	}
	if (buf_len(&c->out) >= CONN_ROOM)
		c->full = true;
	touch(c);
}

void conn_send(struct conn *c, enum agent_type type, const void *message)
{
	if (!c->dead)
		queued(c, message ? agent_encode(&c->out, type, message)
				  : agent_add_raw(&c->out, type, NULL, 0));
}

void conn_send_raw(struct conn *c, enum agent_type type, const void *data, size_t n)
{
	if (!c->dead)
		queued(c, agent_add_raw(&c->out, type, data, n));
}

void conn_send_bytes(struct conn *c, const void *data, size_t n)
{
	if (!c->dead)
		queued(c, buf_add(&c->out, data, n));
}

void conn_error(struct conn *c, enum agent_error_class class, enum agent_type request, int err,
	const char *fmt, ...)
{
	char message[AGENT_TEXT_MAX + 1];
	struct agent_error e = {.class = (uint16_t) class,
		.request = (uint16_t)request,
		.err = (uint32_t)err,
		.message = message};
	size_t n;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap); /* may be cut */
	va_end(ap);
	n = strlen(message);
	if (err)
		(void)snprintf(message + n, sizeof(message) - n, ": %s", strerror(err));
	conn_send(c, AGENT_ERROR, &e);
}

enum agent_error_class error_class_of(int err)
{
	switch (err) {
	case ENOENT:
	case ESRCH:
		return AGENT_ERR_NOT_FOUND;
	case EEXIST:
	case ENOTEMPTY:
		return AGENT_ERR_EXISTS;
	case EACCES:
	case EPERM:
	case EROFS:
		return AGENT_ERR_PERMISSION;
	case ENOSPC:
	case EDQUOT:
		return AGENT_ERR_NO_SPACE;
	case ENOTDIR:
		return AGENT_ERR_NOT_DIRECTORY;
	case EISDIR:
		return AGENT_ERR_IS_DIRECTORY;
	case ELOOP:
		return AGENT_ERR_LOOP;
	case EINVAL:
	case ENAMETOOLONG:
		return AGENT_ERR_INVALID;
	case EMFILE:
	case ENFILE:
	case EAGAIN:
	case E2BIG:
	case ENOMEM:
		return AGENT_ERR_LIMIT;
	case ECONNREFUSED:
		return AGENT_ERR_REFUSED;
	default:
		return AGENT_ERR_INTERNAL;
	}
}

/* --- life --- */

static void unlink_conn(struct conn *c)
{
	if (c->prev)
		c->prev->next = c->next;
	else
		conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	conn_count--;
}

void conn_close(struct conn *c)
{
	const struct stream_ops *ops = c->ops;

	if (c->dead)
		return;
	c->dead = true;
	c->ops = NULL;
	if (ops)
		ops->lost(c);
	source_close(&c->source);
	touch(c);
	if (!c->dirty) { /* touch ignores dead connections, but their memory must be freed */
		c->dirty = true;
		c->next_dirty = dirty;
		dirty = c;
	}
}

int conn_release_fd(struct conn *c)
{
	int fd = c->source.fd;

	(void)source_wait(&c->source, 0); /* fails only for a source that is not in the set */
	c->source.fd = -1;
	c->ops = NULL;
	conn_close(c);
	return fd;
}

static void conn_free(struct conn *c)
{
	unlink_conn(c);
	agent_rx_done(&c->rx);
	buf_done(&c->out);
	loop_defer_free(c);
}

/* --- requests --- */

bool conn_decode(struct conn *c, const struct agent_frame *f, void *m)
{
	int r = agent_decode(f->type, f->payload, f->length, m);

	if (r == 0)
		return true;
	if (r == -E2BIG) {
		conn_error(c, AGENT_ERR_LIMIT, f->type, 0, "a field of this %s is over its maximum",
			agent_type_name(f->type));
		return false;
	}
	conn_error(c, AGENT_ERR_MALFORMED, f->type, 0, "malformed %s", agent_type_name(f->type));
	c->closing = true;
	return false;
}

bool conn_check_flags(struct conn *c, enum agent_type type, uint32_t flags, uint32_t known)
{
	if (!(flags & ~known))
		return true;
	conn_error(c, AGENT_ERR_UNSUPPORTED, type, 0, "unknown flags 0x%x in %s", flags & ~known,
		agent_type_name(type));
	return false;
}

static void handle_bad_stream(struct conn *c, int r)
{
	if (r == -E2BIG)
		conn_error(c, AGENT_ERR_LIMIT, c->rx.joining, 0,
			"a message is longer than %d bytes", AGENT_MESSAGE_MAX);
	else if (r == -ENOMEM)
		conn_error(c, AGENT_ERR_LIMIT, c->rx.joining, ENOMEM, "the agent");
	else
		conn_error(c, AGENT_ERR_MALFORMED, 0, 0, "malformed frame");
	c->closing = true;
}

/* Bounds the memory for partly received long messages: at most JOINED_MAX connections may have one
 * of AGENT_MESSAGE_MAX. */
static bool too_many_joined(const struct conn *c)
{
	unsigned n = 0;

	if (!c->rx.joining)
		return false;
	for (const struct conn *o = conns; o; o = o->next)
		n += o->rx.joining != 0;
	return n > JOINED_MAX;
}

/* Test clients may connect through a proxy that speaks the microVM's "CONNECT port\n". */
static bool greet(struct conn *c)
{
	size_t n = buf_len(&c->rx.in);
	const uint8_t *p, *end;

	if (n == 0)
		return false;
	p = buf_head(&c->rx.in);
	if (guest.init || p[0] != 'C') {
		c->greeted = true;
		return true;
	}
	end = memchr(p, '\n', n < PREAMBLE_MAX ? n : PREAMBLE_MAX);
	if (!end) {
		if (n >= PREAMBLE_MAX)
			conn_close(c);
		return false;
	}
	buf_consume(&c->rx.in, (size_t)(end - p) + 1);
	conn_send_bytes(c, "OK 1073741824\n", 14);
	c->greeted = true;
	return true;
}

/* Handles all messages that have arrived. */
static void conn_pump(struct conn *c)
{
	struct agent_frame f;

	if (!c->greeted && !greet(c))
		return;
	while (!c->dead && !c->closing && !c->blocked && conn_has_room(c) &&
		(!c->ops || c->ops->message)) {
		int r = agent_rx_next(&c->rx, &f);

		if (r == 0 && too_many_joined(c))
			r = -ENOMEM;
		if (r < 0)
			handle_bad_stream(c, r);
		if (r <= 0)
			break;
		if (c->ops ? !c->ops->message(c, &f) : !handle_request(c, &f)) {
			agent_rx_unread(&c->rx);
			c->blocked = true;
		}
	}
}

void conn_unblock(struct conn *c)
{
	c->blocked = false;
	touch(c);
}

void conns_go_on(void)
{
	for (struct conn *c = conns; c; c = c->next)
		if (!c->ops && c->blocked)
			conn_unblock(c);
}

void conn_take_over(struct conn *c, const struct stream_ops *ops, void *stream)
{
	c->ops = ops;
	c->stream = stream;
	touch(c);
}

void conn_end_stream(struct conn *c)
{
	c->ops = NULL;
	c->stream = NULL;
	conn_unblock(c);
}

/* --- events --- */

static void flush(struct conn *c)
{
	while (!c->dead && buf_len(&c->out)) {
		ssize_t n = send(c->source.fd, buf_head(&c->out), buf_len(&c->out),
			MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			if (errno != EAGAIN)
				conn_close(c);
			return;
		}
		buf_consume(&c->out, (size_t)n);
	}
	if (!c->dead && c->out.capacity > 16 * 1024)
		buf_done(&c->out); /* idle connections keep no large buffers */
}

static void wait_for_events(struct conn *c)
{
	/* Hang-ups are always reported. If the peer only stops sending, we learn it by reading. */
	uint32_t events = c->ops && c->ops->half_close ? 0 : EPOLLRDHUP;
	bool reading =
		!c->blocked && !c->closing && conn_has_room(c) && (!c->ops || c->ops->message);

	if (reading)
		events = EPOLLIN;
	if (buf_len(&c->out) || c->again)
		events |= EPOLLOUT;
	if (source_wait(&c->source, events) < 0)
		conn_close(c);
}

/* Sends output. As space frees up, lets the stream and further requests continue. Bounded, for
 * fairness. */
static void service(struct conn *c)
{
	c->again = false;
	for (int i = 0; !c->dead; i++) {
		bool was_full;

		conn_pump(c);
		flush(c);
		if (c->dead || buf_len(&c->out))
			break;
		was_full = c->full;
		c->full = false;
		if (c->ops && c->ops->room)
			c->ops->room(c);
		if (!buf_len(&c->out) && !was_full)
			break;
		if (i == SERVICE_MAX) {
			c->again = true; /* continue in the next round, after the others */
			break;
		}
	}
	if (c->closing && !c->dead && !buf_len(&c->out))
		conn_close(c);
	if (!c->dead)
		wait_for_events(c);
}

static void receive(struct conn *c)
{
	size_t space;
	uint8_t *p = agent_rx_space(&c->rx, &space);
	ssize_t n;

	if (!p)
		return; /* full of messages that wait; not an error */
	n = recv(c->source.fd, p, space, MSG_DONTWAIT);
	if (n > 0)
		agent_rx_received(&c->rx, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		conn_close(c);
}

static void conn_ready(struct source *s, uint32_t events)
{
	struct conn *c = (struct conn *)s;

	if (events & EPOLLIN)
		receive(c);
	else if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
		conn_close(c);
	touch(c);
}

static void conn_open(int fd)
{
	struct conn *c = conn_count < AGENT_CONNECTIONS_MAX ? calloc(1, sizeof(*c)) : NULL;
	struct buf refusal = BUF_INIT(1024);
	struct agent_error e = {.class = AGENT_ERR_LIMIT, .message = "too many connections"};

	if (!c) {
		if (agent_error_encode(&refusal, &e) == 0)
			(void)send(fd, buf_head(&refusal), buf_len(&refusal),
				MSG_DONTWAIT | MSG_NOSIGNAL); /* best effort */
		buf_done(&refusal);
		(void)close(fd); /* the client was promised nothing */
		return;
	}
	agent_rx_init(&c->rx);
	buf_init(&c->out, CONN_OUT_MAX);
	source_open(&c->source, fd, conn_ready);
	c->next = conns;
	if (conns)
		conns->prev = c;
	conns = c;
	conn_count++;
	receive(c); /* the first request has usually arrived already */
	touch(c);
}

static void accept_ready(struct source *s, uint32_t events)
{
	struct sockaddr_vm peer = {0};
	socklen_t n = sizeof(peer);
	int fd = accept4(s->fd, (struct sockaddr *)&peer, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (listener_vsock && peer.svm_cid != VMADDR_CID_HOST) {
		(void)close(fd); /* only the host may connect, no process in the guest */
		return;
	}
	conn_open(fd);
}

void conn_listen(int fd, bool vsock, conn_handler handler)
{
	handle_request = handler;
	listener_vsock = vsock;
	source_open(&listener, fd, accept_ready);
	if (source_wait(&listener, EPOLLIN) < 0)
		console("cannot wait for connections");
}

void conns_after_round(void)
{
	while (dirty) {
		struct conn *c = dirty;

		dirty = c->next_dirty;
		c->dirty = false;
		if (!c->dead)
			service(c);
		if (c->dead && !c->dirty)
			conn_free(c);
	}
}
