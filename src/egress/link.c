#include "egress/link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "dialler/broker.h"

enum { READ_BYTES = 16384 };

int link_take_fd(struct link *k)
{
	int fd = k->fd_count ? k->fds[0] : -1;

	if (k->fd_count)
		memmove(k->fds, k->fds + 1, --k->fd_count * sizeof(k->fds[0]));
	return fd;
}

static void drop_client(struct link *k)
{
	if (!k->client.added)
		return;
	loop_remove(k->loop, &k->client);
	(void)close(k->client.fd); /* gone, or replaced */
	while (k->fd_count)
		(void)close(link_take_fd(k)); /* of lines that did not come whole */
	buf_done(&k->in);
	k->sent = 0;
}

/* Sends what the client takes now. */
static void flush(struct link *k)
{
	while (k->client.added && buf_len(&k->out)) {
		const uint8_t *all = buf_head(&k->out), *end;
		ssize_t n = fd_send_peer(k->client.fd, all + k->sent, buf_len(&k->out) - k->sent);
		size_t whole;

		if (n < 0)
			break; /* its end is an event of its own */
		k->sent += (size_t)n;
		end = memrchr(all, '\n', k->sent);
		whole = end ? (size_t)(end - all) + 1 : 0;
		buf_consume(&k->out, whole);
		k->sent -= whole;
	}
	if (buf_len(&k->out) == 0)
		buf_done(&k->out); /* gives the memory back */
	loop_change(k->loop, &k->client, buf_len(&k->out) ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

bool link_is_slow(const struct link *k)
{
	return buf_len(&k->out) > LINK_OUT_MAX / 2;
}

bool link_has_client(const struct link *k)
{
	return k->client.added;
}

int link_send(struct link *k, const struct buf *line)
{
	int r = buf_add(&k->out, buf_head(line), buf_len(line));

	if (r == 0 && buf_len(&k->out) >= LINK_OUT_ENOUGH)
		flush(k);
	else if (r == 0)
		loop_after(k->loop, &k->after);
	return r;
}

/* Hands out whole lines. Returns false when the client is gone: replaced, or it sent too much. */
static void take_lines(struct link *k)
{
	char *line, *end;

	while (buf_len(&k->in)) {
		line = (char *)k->in.data + k->in.start;
		end = memchr(line, '\n', buf_len(&k->in));
		if (!end)
			return;
		k->on_line(k->arg, line, (size_t)(end - line));
		buf_consume(&k->in, (size_t)(end - line) + 1);
	}
	buf_done(&k->in); /* a policy is large, and seldom comes */
}

static void keep_fd(struct link *k, struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fd;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
		c->cmsg_len != CMSG_LEN(sizeof(int)))
		return;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (k->fd_count < LINK_FDS_MAX)
		k->fds[k->fd_count++] = fd;
	else
		(void)close(fd); /* never: the daemon sends one with a line */
}

/* A descriptor comes with the first bytes of its line, and no second one in the same call.
 *
 * #calls egress: recvmsg */
static ssize_t receive(struct link *k, void *data, size_t n)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {data, n};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	ssize_t got = recvmsg(k->client.fd, &m, MSG_CMSG_CLOEXEC);

	if (got > 0)
		keep_fd(k, &m);
	return got;
}

static void on_client(void *arg, uint32_t events)
{
	struct link *k = arg;
	uint8_t *p;
	ssize_t n;

	if (events & EPOLLOUT)
		flush(k);
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	p = buf_reserve(&k->in, READ_BYTES);
	n = p ? receive(k, p, READ_BYTES) : 0;
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		drop_client(k);
		return;
	}
	buf_commit(&k->in, (size_t)n);
	take_lines(k);
}

static void on_connection(void *arg, uint32_t events)
{
	struct link *k = arg;
	int fd = broker_take(k->listener.fd);

	(void)events; /* there is one */
	if (fd < 0)
		return;
	drop_client(k);
	if (loop_add(k->loop, &k->client, fd, EPOLLIN) < 0) {
		(void)close(fd); /* it sees that */
		return;
	}
	k->on_client(k->arg);
	flush(k);
}

static void on_turn(void *arg)
{
	flush(arg);
}

int link_init(struct link *k, struct loop *l, int clients_fd)
{
	k->loop = l;
	buf_init_secret(&k->in, LINK_LINE_MAX); /* policies */
	buf_init(&k->out, LINK_OUT_MAX);
	k->listener.on = on_connection;
	k->client.on = on_client;
	k->after.on = on_turn;
	k->listener.arg = k->client.arg = k->after.arg = k;
	return loop_add(l, &k->listener, clients_fd, EPOLLIN);
}

void link_done(struct link *k)
{
	flush(k); /* the last words */
	loop_stop(k->loop, &k->after);
	drop_client(k);
	loop_remove(k->loop, &k->listener);
	buf_done(&k->out);
}
