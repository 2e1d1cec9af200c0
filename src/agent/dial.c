/* DIAL: a TCP connection inside the guest, joined to the host's connection. Once it is established,
 * both descriptors leave struct conn, and raw bytes pass in both directions (relay.h). */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "relay.h"
#include "requests.h"

#define CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define CONNECT_TIMEOUT_NS	     (10 * NS_PER_S)

enum { HELD_MAX = 256 * 1024 };

struct dial {
	struct relay relay; /* near: in the guest; far: the host, owned by conn until the connection
			     * is established */
	struct timer timeout;
	struct conn *conn; /* NULL once established */
	uint16_t port;
	bool try_ipv6; /* the request named no host */
};

static unsigned dial_count;

static void dial_free(struct dial *d)
{
	relay_close(&d->relay);
	timer_cancel(&d->timeout);
	dial_count--;
	loop_defer_free(d);
}

static void dial_over(struct relay *r, bool broken)
{
	dial_free(CONTAINER(r, struct dial, relay));
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
	struct dial *d = CONTAINER(s, struct dial, relay.near);
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
	source_close(&d->relay.near);
	source_open(&d->relay.near, fd, connect_ready);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* without it, the
									    * connection is only
									    * slower */
	if (connect(fd, sa, n) == 0)
		return 1;
	if (errno != EINPROGRESS)
		return -errno;
	r = source_wait(&d->relay.near, EPOLLOUT);
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
	r = buf_add(&d->relay.to_far.held, buf_head(&c->out), buf_len(&c->out));
	if (r == 0 && buf_len(&c->rx.in))
		r = buf_add(&d->relay.to_near.held, buf_head(&c->rx.in), buf_len(&c->rx.in));
	if (r < 0) {
		conn_close(c);
		return;
	}
	d->conn = NULL;
	fd = conn_release_fd(c);
	source_open(&d->relay.far, fd, NULL); /* until relay_run */
	relay_run(&d->relay, dial_over);
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
	relay_init(&d->relay, HELD_MAX, CONN_OUT_MAX);
	d->relay.far_may_go = true; /* nobody waits for what the guest still says */
	conn_take_over(c, &standing_ops, d);
	timer_set(&d->timeout, CONNECT_TIMEOUT_NS, connect_expired);
	r = start(d, m.host);
	if (r != 0)
		connected(d, r < 0 ? -r : 0);
}
