/* DIAL: a TCP connection inside the guest, joined to the host's connection. Once it is established,
 * both descriptors leave struct conn, and raw bytes pass in both directions. Each direction has one
 * bounded buffer and ends on its own. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "requests.h"

#define CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define CONNECT_TIMEOUT_NS	     (10 * NS_PER_S)

enum { HELD_MAX = 256 * 1024, SLICE = 64 * 1024 };

/* One direction: bytes from one socket to the other. */
struct direction {
	struct buf held; /* what `to` has not taken yet */
	bool ended;	 /* no more bytes will come */
	bool shut;	 /* and `to` was told so */
};

struct dial {
	struct source guest, host; /* host is owned by conn until the connection is established */
	struct direction to_guest, to_host;
	struct timer timeout;
	struct conn *conn; /* NULL once established */
	uint16_t port;
	bool try_ipv6; /* the request named no host */
};

static uint8_t slice[SLICE];
static unsigned dial_count;

static void dial_free(struct dial *d)
{
	source_close(&d->guest);
	source_close(&d->host);
	timer_cancel(&d->timeout);
	buf_done(&d->to_guest.held);
	buf_done(&d->to_host.held);
	dial_count--;
	loop_defer_free(d);
}

/* --- the joined streams --- */

/* False: the receiver is gone. */
static bool drain(struct direction *x, struct source *to)
{
	while (buf_len(&x->held)) {
		ssize_t n = send(
			to->fd, buf_head(&x->held), buf_len(&x->held), MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		buf_consume(&x->held, (size_t)n);
	}
	buf_done(&x->held);
	if (x->ended && !x->shut) {
		x->shut = true;
		(void)shutdown(to->fd, SHUT_WR); /* if it is gone, the other direction notices */
	}
	return true;
}

/* Moves the bytes of one read. False: the connection broke. */
static bool carry(struct direction *x, struct source *from, struct source *to)
{
	ssize_t n = recv(from->fd, slice, sizeof(slice), MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		x->ended = true;
	else if (buf_add(&x->held, slice, (size_t)n) < 0)
		return false;
	return drain(x, to);
}

static uint32_t wanted(const struct direction *in, const struct direction *out)
{
	uint32_t events = !in->ended && !buf_len(&in->held) ? EPOLLIN : 0;

	return events | (buf_len(&out->held) ? EPOLLOUT : 0);
}

static void dial_go_on(struct dial *d, bool alive)
{
	bool over = d->to_guest.shut && d->to_host.shut;

	if (!alive || over || source_wait(&d->guest, wanted(&d->to_host, &d->to_guest)) < 0 ||
		source_wait(&d->host, wanted(&d->to_guest, &d->to_host)) < 0)
		dial_free(d);
}

/* Handles events of `from`. Its bytes go along x; bytes for it come along y. */
static void dial_event(struct dial *d, struct source *from, struct source *to, struct direction *x,
	struct direction *y, uint32_t events)
{
	bool alive = true;

	if (events & EPOLLOUT)
		alive = drain(y, from);
	/* Treat a hang-up as end of file, so that the bytes before it are delivered. */
	if (alive && !x->ended && !buf_len(&x->held) && (events & ~(uint32_t)EPOLLOUT))
		alive = carry(x, from, to);
	else if (alive && x->ended && (events & (EPOLLHUP | EPOLLERR)))
		alive = false;
	dial_go_on(d, alive);
}

static void guest_ready(struct source *s, uint32_t events)
{
	struct dial *d = CONTAINER(s, struct dial, guest);

	dial_event(d, &d->guest, &d->host, &d->to_host, &d->to_guest, events);
}

static void host_ready(struct source *s, uint32_t events)
{
	struct dial *d = CONTAINER(s, struct dial, host);

	dial_event(d, &d->host, &d->guest, &d->to_guest, &d->to_host, events);
}

/* --- connecting --- */

static void dial_lost(struct conn *c)
{
	dial_free(c->stream);
}

static int connect_address(struct dial *d, const struct sockaddr *sa, socklen_t n);
static void connected(struct dial *d, int err);

static int dial_ipv6_loopback(struct dial *d)
{
	struct sockaddr_in6 sa = {.sin6_family = AF_INET6,
		.sin6_port = htons(d->port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};

	d->try_ipv6 = false;
	return connect_address(d, (struct sockaddr *)&sa, sizeof(sa));
}

static void connect_ready(struct source *s, uint32_t events)
{
	struct dial *d = CONTAINER(s, struct dial, guest);
	socklen_t n = sizeof(int);
	int err = 0;

	if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &n) < 0)
		err = errno;
	connected(d, err);
}

static void connect_expired(struct timer *t)
{
	struct dial *d = CONTAINER(t, struct dial, timeout);

	d->try_ipv6 = false;
	connected(d, ETIMEDOUT);
}

/* 1: connected; 0: in progress; or -errno. */
static int connect_address(struct dial *d, const struct sockaddr *sa, socklen_t n)
{
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1, r;

	if (fd < 0)
		return -errno;
	source_close(&d->guest);
	source_open(&d->guest, fd, connect_ready);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* without it, the
									    * connection is only
									    * slower */
	if (connect(fd, sa, n) == 0)
		return 1;
	if (errno != EINPROGRESS)
		return -errno;
	r = source_wait(&d->guest, EPOLLOUT);
	return r;
}

static const struct stream_ops standing_ops = {.lost = dial_lost, .half_close = true};

/* Switches to raw bytes. Output still in the connection's buffer, including the OK, goes first. */
static void stand(struct dial *d)
{
	struct conn *c = d->conn;
	int fd, r;

	timer_cancel(&d->timeout);
	conn_send(c, AGENT_OK, NULL);
	if (c->dead)
		return; /* d was freed */
	agent_rx_release(&c->rx);
	r = buf_add(&d->to_host.held, buf_head(&c->out), buf_len(&c->out));
	if (r == 0 && buf_len(&c->rx.in))
		r = buf_add(&d->to_guest.held, buf_head(&c->rx.in), buf_len(&c->rx.in));
	if (r < 0) {
		conn_close(c);
		return;
	}
	d->conn = NULL;
	fd = conn_release_fd(c);
	source_open(&d->host, fd, host_ready);
	d->guest.ready = guest_ready;
	dial_go_on(d, drain(&d->to_host, &d->host) && drain(&d->to_guest, &d->guest));
}

static void connected(struct dial *d, int err)
{
	struct conn *c = d->conn;
	int r = 1;

	if (err && d->try_ipv6) {
		/* If both fail, report the first error. */
		r = dial_ipv6_loopback(d);
		if (r == 0)
			return;
		err = r > 0 ? 0 : err;
	}
	if (!err) {
		stand(d);
		return;
	}
	conn_end_stream(c);
	conn_error(c, error_class_of(err), AGENT_DIAL, err, "port %u", d->port);
	dial_free(d);
}

static int start(struct dial *d, const char *host)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(d->port)};
	struct sockaddr_in v4 = {.sin_family = AF_INET,
		.sin_port = htons(d->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	d->try_ipv6 = !host[0];
	if (!host[0] || inet_pton(AF_INET, host, &v4.sin_addr) == 1)
		return connect_address(d, (struct sockaddr *)&v4, sizeof(v4));
	if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1)
		return connect_address(d, (struct sockaddr *)&v6, sizeof(v6));
	return -EINVAL;
}

void request_dial(struct conn *c, const struct agent_frame *f)
{
	struct agent_dial m;
	struct dial *d;
	int r;

	if (!conn_decode(c, f, &m))
		return;
	d = dial_count < AGENT_CONNECTIONS_MAX ? calloc(1, sizeof(*d)) : NULL;
	if (!d) {
		conn_error(c, AGENT_ERR_LIMIT, AGENT_DIAL, 0, "too many dialled connections");
		return;
	}
	dial_count++;
	d->conn = c;
	d->port = m.port;
	d->guest.fd = d->host.fd = -1;
	buf_init(&d->to_guest.held, HELD_MAX);
	buf_init(&d->to_host.held, CONN_OUT_MAX);
	conn_take_over(c, &standing_ops, d);
	timer_set(&d->timeout, CONNECT_TIMEOUT_NS, connect_expired);
	r = start(d, m.host);
	if (r != 0)
		connected(d, r < 0 ? -r : 0);
}
