/* The host side of virtio-vsock: clients, their CONNECT lines, and deadlines. */
#include "vmm/vsock_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

enum {
	EVENTS_MAX = 64, /* host events, and new clients, per poll */
	LISTEN_RETRY_MS = 100,
};

/* --- timer and listening socket --- */

/* #calls vcpu main: timerfd_settime */
void vsock_timer_set(struct vsock *v, uint64_t at_ns)
{
	struct itimerspec t = {.it_value = {.tv_sec = (time_t)(at_ns / NS_PER_S),
				       .tv_nsec = (long)(at_ns % NS_PER_S)}};

	if (v->timer_ns && v->timer_ns <= at_ns)
		return;
	v->timer_ns = at_ns;
	(void)timerfd_settime(v->timer_fd, TFD_TIMER_ABSTIME, &t, NULL); /* valid arguments */
}

void vsock_conn_set_deadline(struct vsock *v, struct vsock_conn *c, uint64_t ms)
{
	c->deadline_ns = clock_monotonic_ns() + ms * NS_PER_MS;
	vsock_timer_set(v, c->deadline_ns);
}

void vsock_listen_watch(struct vsock *v, bool on)
{
	struct epoll_event e = {.events = on ? EPOLLIN : 0, .data.u64 = ID_LISTEN};

	v->listen_paused = !on;
	(void)epoll_ctl(v->epoll_fd, EPOLL_CTL_MOD, v->listen_fd, &e); /* it is in the set */
}

/* --- clients --- */

/* Parses "CONNECT <port>\n". */
static bool parse_line(struct vsock_conn *c)
{
	static const char verb[] = "CONNECT ";
	char line[LINE_MAX_BYTES + 1];
	uint64_t port;

	memcpy(line, c->line, c->line_len);
	line[c->line_len - 1] = '\0'; /* the newline */
	if (!str_starts_with(line, verb) || str_parse_u64(line + strlen(verb), &port) < 0 ||
		port > UINT32_MAX)
		return false;
	c->guest_port = (uint32_t)port;
	return true;
}

/* Reads the rest of the line from the socket, and nothing behind it. Returns 1 when the line is
 * complete, 0 when more must come, -1 when it cannot become a line.
 *
 * #calls main: recvfrom */
static int read_line(struct vsock_conn *c)
{
	for (;;) {
		char *p = c->line + c->line_len;
		size_t room = sizeof(c->line) - c->line_len;
		ssize_t n = recv(c->fd, p, room, MSG_PEEK | MSG_DONTWAIT);
		const char *newline;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return -1;
		newline = memchr(p, '\n', (size_t)n);
		if (newline)
			n = newline - p + 1;
		if (recv(c->fd, p, (size_t)n, MSG_DONTWAIT) != n)
			return -1;
		c->line_len += (uint8_t)n;
		if (newline)
			return 1;
		if (c->line_len == sizeof(c->line))
			return -1;
	}
}

static void conn_handshake(struct vsock *v, struct vsock_conn *c)
{
	int r = read_line(c);

	if (r < 0 || (r > 0 && !parse_line(c))) {
		vsock_conn_refuse(v, c, "ERR request\n");
		return;
	}
	if (r == 0) {
		if (!c->deadline_ns)
			vsock_conn_set_deadline(v, c, VSOCK_HANDSHAKE_MS);
		return;
	}
	if (v->dev.status & VIRTIO_STATUS_NEEDS_RESET) {
		vsock_conn_refuse(v, c, "ERR reset\n");
		return;
	}
	c->deadline_ns = 0;
	c->state = CONN_CONNECTING;
	c->pending = PENDING_REQUEST;
	vsock_conn_schedule(v, c);
}

static void client_new(struct vsock *v, int fd)
{
	struct vsock_conn *c = vsock_conn_new(v, fd);

	if (!c) {
		(void)fd_send(fd, "ERR busy\n", 9); /* a courtesy */
		(void)close(fd);
		return;
	}
	if (vsock_conn_watch(v, c) < 0)
		vsock_conn_refuse(v, c, "ERR busy\n");
	else
		conn_handshake(v, c);
}

/* #calls main: accept4 */
static void accept_clients(struct vsock *v)
{
	for (unsigned i = 0; i < EVENTS_MAX; i++) {
		int fd = accept4(v->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			client_new(v, fd);
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			/* Out of descriptors or memory. The socket stays readable, so stop watching
			 * it for a while. */
			vsock_listen_watch(v, false);
			v->listen_retry_ns = clock_monotonic_ns() + LISTEN_RETRY_MS * NS_PER_MS;
			vsock_timer_set(v, v->listen_retry_ns);
			return;
		}
	}
}

static void conn_client_left(struct vsock *v, struct vsock_conn *c)
{
	if (c->state == CONN_ESTABLISHED) {
		vsock_conn_host_gone(c);
		vsock_conn_check_end(v, c);
	} else if (c->state == CONN_DRAINING) {
		vsock_conn_free(v, c); /* the guest no longer knows of it */
	} else {
		vsock_conn_reset(v, c);
	}
}

static void conn_event(struct vsock *v, struct vsock_conn *c, uint32_t events)
{
	if (c->state == CONN_HANDSHAKE) {
		conn_handshake(v, c);
		return;
	}
	if (c->fd < 0)
		return;
	if (events & EPOLLOUT)
		vsock_conn_flush(v, c);
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->readable = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->host_hung_up = true;
	if (events & (EPOLLHUP | EPOLLERR) || (c->state == CONN_DRAINING && c->host_gone))
		conn_client_left(v, c);
	else if (c->state == CONN_DRAINING && buf_len(&c->out) == 0)
		vsock_conn_free(v, c);
	else
		vsock_conn_check_end(v, c);
	vsock_conn_schedule(v, c);
}

static void conn_expired(struct vsock *v, struct vsock_conn *c)
{
	if (c->state == CONN_HANDSHAKE)
		vsock_conn_refuse(v, c, "ERR timeout\n");
	else
		vsock_conn_reset(v, c);
}

/* The timer fired. Ends what is due and sets the timer for what is due next.
 *
 * #calls main: read */
static void check_deadlines(struct vsock *v)
{
	uint64_t now = clock_monotonic_ns(), expirations;

	(void)!read(v->timer_fd, &expirations, sizeof(expirations)); /* only rearms it */
	v->timer_ns = 0;
	if (v->listen_paused && now >= v->listen_retry_ns)
		vsock_listen_watch(v, true);
	else if (v->listen_paused) /* the timer fired for something else */
		vsock_timer_set(v, v->listen_retry_ns);
	for (uint16_t i = 0; i < v->slots_used; i++) {
		struct vsock_conn *c = &v->conns[i];

		if (c->state == CONN_FREE || !c->deadline_ns)
			continue;
		if (c->deadline_ns <= now)
			conn_expired(v, c);
		else
			vsock_timer_set(v, c->deadline_ns);
	}
}

/* Handles what happened on the host side.
 *
 * #calls musl main: epoll_pwait
 * #calls glibc main: epoll_wait */
void vsock_host_events(struct vsock *v)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(v->epoll_fd, events, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++) {
		struct vsock_conn *c;

		if (events[i].data.u64 == ID_LISTEN) {
			accept_clients(v);
		} else if (events[i].data.u64 == ID_TIMER) {
			check_deadlines(v);
		} else {
			c = vsock_conn_by_id(v, (uint32_t)events[i].data.u64);
			if (c)
				conn_event(v, c, events[i].events);
		}
	}
}
