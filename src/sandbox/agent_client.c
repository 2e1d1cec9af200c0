#include "sandbox/agent_client.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/agent_client_internal.h"

enum { PREAMBLE_REPLY_MAX = 64 };

/* --- opening --- */

int agent_open(int fd, unsigned flags, struct agent_conn **ret, struct error *e)
{
	static const char preamble[] = "CONNECT 1024\n";
	struct agent_conn *c = calloc(1, sizeof(*c));

	if (c) {
		c->fd = fd;
		c->phase = flags & AGENT_OPEN_PREAMBLE ? PHASE_PREAMBLE : PHASE_OPEN;
		agent_rx_init(&c->rx);
		buf_init(&c->out, AGENT_QUEUE_MAX);
		agent_replies_init(&c->replies);
		agent_set_share(c, UINT_MAX, SIZE_MAX);
	}
	if (!c || (c->phase == PHASE_PREAMBLE && buf_add_str(&c->out, preamble) < 0)) {
		if (c)
			c->fd = -1; /* stays the caller's */
		agent_close(c);
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	*ret = c;
	return 0;
}

int agent_connect(int dirfd, struct agent_conn **ret, struct error *e)
{
	int fd = fd_unix_connect(dirfd, "vsock.sock", SOCK_STREAM), r;

	if (fd < 0)
		return error_set_errno(
			e, ERROR_SANDBOX, -fd, "cannot reach the microVM (vsock.sock)");
	r = agent_open(fd, AGENT_OPEN_PREAMBLE, ret, e);
	if (r < 0)
		(void)close(fd); /* nothing was sent */
	return r;
}

void agent_set_fd(struct agent_conn *c, int fd)
{
	c->fd = fd;
}

void agent_close(struct agent_conn *c)
{
	if (!c)
		return;
	if (c->fd >= 0)
		(void)close(c->fd); /* queued bytes that were not flushed are dropped on purpose */
	agent_rx_done(&c->rx);
	buf_done(&c->out);
	agent_replies_done(&c->replies);
	free(c);
}

int agent_take_fd(struct agent_conn *c, uint8_t **ret_early, size_t *ret_early_bytes)
{
	int fd = c->fd;
	size_t n;

	agent_rx_release(&c->rx);
	n = buf_len(&c->rx.in);
	*ret_early = NULL;
	*ret_early_bytes = n;
	if (n) {
		*ret_early = malloc(n);
		if (!*ret_early)
			return -ENOMEM;
		memcpy(*ret_early, buf_head(&c->rx.in), n);
	}
	c->fd = -1;
	agent_close(c);
	return fd;
}

/* --- bytes --- */

/* Reads the microVM's "OK <port>\n" or "ERR <reason>\n", which precedes the agent's first byte. */
static int take_preamble(struct agent_conn *c)
{
	size_t n = buf_len(&c->rx.in);
	const uint8_t *p = n ? buf_head(&c->rx.in) : NULL, *end = n ? memchr(p, '\n', n) : NULL;

	if (!end)
		return n > PREAMBLE_REPLY_MAX ? -EBADMSG : 0;
	if (end - p >= 2 && memcmp(p, "OK", 2) == 0) {
		buf_consume(&c->rx.in, (size_t)(end - p) + 1);
		c->phase = PHASE_OPEN;
		return 1;
	}
	c->refused = end - p >= 3 && memcmp(p, "ERR", 3) == 0;
	return c->refused ? -ECONNREFUSED : -EBADMSG;
}

int agent_feed(struct agent_conn *c, const void *data, size_t n)
{
	agent_rx_release(&c->rx);
	if (n > c->rx.in.max - buf_len(&c->rx.in))
		return -EMSGSIZE;
	return buf_add(&c->rx.in, data, n);
}

void agent_feed_eof(struct agent_conn *c)
{
	if (c->phase != PHASE_BROKEN)
		c->phase = c->phase == PHASE_PREAMBLE ? PHASE_BROKEN : PHASE_EOF;
}

size_t agent_output(const struct agent_conn *c, const uint8_t **ret)
{
	*ret = buf_len(&c->out) ? buf_head(&c->out) : NULL;
	return buf_len(&c->out);
}

void agent_output_done(struct agent_conn *c, size_t n)
{
	buf_consume(&c->out, n);
}

/* --- events --- */

static int broken(struct agent_conn *c, int r, struct error *e)
{
	c->phase = PHASE_BROKEN;
	if (r == -ECONNREFUSED)
		return error_set(e, ERROR_SANDBOX, ECONNREFUSED,
			"the guest's agent does not listen (still booting, or it has ended)");
	if (r == -ECONNRESET)
		return error_set(e, ERROR_SANDBOX, ECONNRESET, "the agent closed the connection");
	return error_set(e, ERROR_SANDBOX, -r, "the agent broke the protocol");
}

static int decode_event(const struct agent_frame *f, struct agent_event *ev)
{
	switch (f->type) {
	case AGENT_HELLO_REPLY:
	case AGENT_IDENTITY_REPLY:
	case AGENT_METRICS:
	case AGENT_STARTED:
	case AGENT_EXIT:
	case AGENT_PROCESS:
	case AGENT_ENTRY:
	case AGENT_WATCH_EVENT:
	case AGENT_NODE:
	case AGENT_TASK:
	case AGENT_PROGRAM:
	case AGENT_FILE:
	case AGENT_ERROR:
		return agent_decode(f->type, f->payload, f->length, &ev->hello);
	case AGENT_STDOUT:
	case AGENT_STDERR:
	case AGENT_PTY:
	case AGENT_DATA:
		ev->data = f->payload;
		ev->length = f->length;
		return 0;
	case AGENT_OK:
	case AGENT_END:
		return f->length ? -EBADMSG : 0;
	default:
		return -EBADMSG;
	}
}

static int take_window(struct agent_conn *c, const struct agent_frame *f)
{
	struct agent_window w;
	int r = agent_window_decode(f->payload, f->length, &w);

	if (r < 0)
		return r;
	/* each one accounts for bytes that we sent, so there cannot be many */
	if (!w.bytes || w.bytes > c->in_flight)
		return -EBADMSG;
	c->in_flight -= w.bytes;
	return 0;
}

/* Takes the next frame of the share. Returns 1, 0 or -errno. */
static int next_frame(struct agent_conn *c, struct agent_frame *f)
{
	size_t cost;
	int r;

	c->spent = !c->frames_left || !c->bytes_left;
	r = c->spent ? 0 : agent_rx_next(&c->rx, f);
	if (r <= 0)
		return r;
	cost = AGENT_HEADER_BYTES + f->length;
	c->frames_left -= c->frames_left != UINT_MAX;
	if (c->bytes_left != SIZE_MAX)
		c->bytes_left -= cost < c->bytes_left ? cost : c->bytes_left;
	return 1;
}

/* Takes the next event from what has been received. Returns 1, 0 or -errno. */
static int parse_event(struct agent_conn *c, struct agent_event *ev)
{
	struct agent_frame f;
	int r;

	if (c->phase == PHASE_BROKEN)
		return c->refused ? -ECONNREFUSED : -ECONNRESET;
	if (c->phase == PHASE_PREAMBLE) {
		r = take_preamble(c);
		if (r <= 0)
			return r;
	}
	for (;;) {
		r = next_frame(c, &f);
		if (r <= 0)
			return r;
		if (f.type != AGENT_WINDOW)
			break;
		r = take_window(c, &f);
		if (r < 0)
			return r;
	}
	*ev = (struct agent_event){.type = f.type};
	r = decode_event(&f, ev);
	if (r < 0 || agent_replies_take(&c->replies, f.type) < 0)
		return -EBADMSG;
	if (ev->type == AGENT_STARTED && c->attaching) {
		c->stdin_open = true;
		c->in_flight = 0;
	}
	if (ev->type == AGENT_STARTED || ev->type == AGENT_ERROR)
		c->attaching = false;
	if (ev->type == AGENT_EXIT || ev->type == AGENT_ERROR || ev->type == AGENT_END)
		c->stdin_open = false;
	return 1;
}

/* Returns 1 when bytes or the end came, 0 if it would block, or -errno. */
static int receive(struct agent_conn *c)
{
	size_t space;
	uint8_t *p;
	ssize_t n;

	if (c->fd < 0 || c->phase == PHASE_EOF)
		return 0;
	p = agent_rx_space(&c->rx, &space);
	if (!p)
		return -ENOMEM;
	do {
		n = recv(c->fd, p, space, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		agent_rx_received(&c->rx, (size_t)n);
		return 1;
	}
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n < 0 && errno != ECONNRESET)
		return -errno;
	agent_feed_eof(c);
	return 1;
}

void agent_set_share(struct agent_conn *c, unsigned frames, size_t bytes)
{
	c->frames_left = frames;
	c->bytes_left = bytes;
	c->spent = false;
}

bool agent_share_is_spent(const struct agent_conn *c)
{
	return c->spent;
}

int agent_next_event(struct agent_conn *c, struct agent_event *ret, struct error *e)
{
	int r;

	/* If the write fails, the read fails as well, after the agent's last words. */
	if (buf_len(&c->out))
		(void)agent_flush(c, NULL);
	for (;;) {
		r = parse_event(c, ret);
		if (r > 0)
			return 1;
		if (r < 0)
			return broken(c, r, e);
		if (c->spent)
			return 0;
		r = receive(c);
		if (r < 0)
			return broken(c, r, e);
		if (r == 0)
			break;
	}
	return c->phase == PHASE_EOF ? broken(c, -ECONNRESET, e) : 0;
}

static enum error_code code_of_class(unsigned class)
{
	switch (class) {
	case AGENT_ERR_LIMIT:
		return ERROR_LIMIT;
	case AGENT_ERR_UNUSABLE:
		return ERROR_BAD_IMAGE;
	case AGENT_ERR_NOT_FOUND:
		return ERROR_NOT_FOUND;
	case AGENT_ERR_EXISTS:
		return ERROR_EXISTS;
	case AGENT_ERR_NO_SPACE:
		return ERROR_NO_SPACE;
	case AGENT_ERR_NO_COMMAND:
		return ERROR_NO_COMMAND;
	case AGENT_ERR_NOT_EXECUTABLE:
		return ERROR_NOT_EXECUTABLE;
	case AGENT_ERR_MALFORMED:
	case AGENT_ERR_INTERNAL:
		return ERROR_INTERNAL;
	default:
		return ERROR_USAGE;
	}
}

int agent_event_error(const struct agent_event *ev, struct error *e)
{
	static const int errno_of_class[] = {
		[AGENT_ERR_MALFORMED] = EPROTO,
		[AGENT_ERR_UNSUPPORTED] = EOPNOTSUPP,
		[AGENT_ERR_LIMIT] = E2BIG,
		[AGENT_ERR_INVALID] = EINVAL,
		[AGENT_ERR_UNUSABLE] = ENOEXEC,
		[AGENT_ERR_NOT_FOUND] = ENOENT,
		[AGENT_ERR_EXISTS] = EEXIST,
		[AGENT_ERR_NOT_FILE] = EINVAL,
		[AGENT_ERR_BAD_USER] = ENOENT,
		[AGENT_ERR_INPUT_CLOSED] = EPIPE,
		[AGENT_ERR_WRONG_KIND] = ENOTTY,
		[AGENT_ERR_REFUSED] = ECONNREFUSED,
	};
	const struct agent_error *m = &ev->error;
	int err = (int)m->err;

	if (ev->type != AGENT_ERROR)
		return error_set(e, ERROR_SANDBOX, EBADMSG, "the agent answered with %s",
			agent_type_name(ev->type));
	if ((err <= 0 || err > 4095) && m->class < ARRAY_SIZE(errno_of_class))
		err = errno_of_class[m->class];
	if (err <= 0 || err > 4095)
		err = EIO;
	return error_set(e, code_of_class(m->class), err, "%s", m->message);
}

/* --- polling --- */

int agent_fd(const struct agent_conn *c)
{
	return c->fd;
}

bool agent_wants_write(const struct agent_conn *c)
{
	return buf_len(&c->out) > 0;
}

short agent_poll_events(const struct agent_conn *c)
{
	return agent_wants_write(c) ? POLLIN | POLLOUT : POLLIN;
}

int agent_flush(struct agent_conn *c, struct error *e)
{
	while (c->fd >= 0 && buf_len(&c->out)) {
		ssize_t n = send(
			c->fd, buf_head(&c->out), buf_len(&c->out), MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return error_set_errno(e, ERROR_SANDBOX, errno, "writing to the agent");
		buf_consume(&c->out, (size_t)n);
	}
	return 1;
}
