#include "sandbox/agent_client.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/agent_replies.h"

enum {
	PREAMBLE_REPLY_MAX = 64,
	READY_PAUSE_MS = 2,
	READY_PAUSE_MAX_MS = 50,
	/* of a blocking call between two looks at the clock */
	SHARE_FRAMES = 64,
	SHARE_BYTES = 256 * 1024,
};

enum conn_phase {
	PHASE_PREAMBLE, /* the microVM has not answered CONNECT yet */
	PHASE_OPEN,
	PHASE_EOF,    /* the agent closed; what was received is still handed out */
	PHASE_BROKEN, /* the agent broke the protocol: nothing more is read */
};

struct agent_conn {
	int fd;
	enum conn_phase phase;
	bool refused; /* the microVM said ERR */
	struct agent_rx rx;
	struct buf out;
	struct agent_replies replies;
	unsigned frames_left; /* of the share: see agent_set_share() */
	size_t bytes_left;
	bool spent;
	bool stdin_open;  /* a stream that takes STDIN is queued or running */
	size_t in_flight; /* STDIN bytes sent and not acknowledged */
};

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

/* Checks the deadline. Returns 0 with *ret_left_ns (UINT64_MAX: forever), or -ETIMEDOUT. */
static int time_left(uint64_t deadline_ns, uint64_t *ret_left_ns, struct error *e)
{
	uint64_t now = deadline_ns ? clock_monotonic_ns() : 0;

	*ret_left_ns = deadline_ns ? deadline_ns - now : UINT64_MAX;
	if (deadline_ns && deadline_ns <= now)
		return error_set(e, ERROR_TIMEOUT, ETIMEDOUT, "the agent did not answer in time");
	return 0;
}

static int wait_for(struct agent_conn *c, uint64_t deadline_ns, struct error *e)
{
	struct pollfd p = {.fd = c->fd, .events = agent_poll_events(c)};
	struct timespec ts, *timeout = NULL;
	uint64_t left;
	int r = time_left(deadline_ns, &left, e);

	if (r < 0)
		return r;
	if (deadline_ns) {
		ts = (struct timespec){(time_t)(left / NS_PER_S), (long)(left % NS_PER_S)};
		timeout = &ts;
	}
	if (ppoll(&p, 1, timeout, NULL) < 0 && errno != EINTR)
		return error_set_errno(e, ERROR_INTERNAL, errno, "poll");
	return 0;
}

int agent_wait_event(
	struct agent_conn *c, uint64_t deadline_ns, struct agent_event *ret, struct error *e)
{
	uint64_t left;
	int r = 0;

	while (r == 0) {
		/* checked even if there is always something to read */
		r = time_left(deadline_ns, &left, e);
		if (r < 0)
			break;
		agent_set_share(c, SHARE_FRAMES, SHARE_BYTES);
		r = agent_next_event(c, ret, e);
		if (r == 0 && !agent_share_is_spent(c))
			r = wait_for(c, deadline_ns, e);
	}
	agent_set_share(c, UINT_MAX, SIZE_MAX);
	return r;
}

/* --- requests --- */

int agent_request(struct agent_conn *c, enum agent_type type, const void *message, struct error *e)
{
	size_t before = buf_len(&c->out);
	int r = message ? agent_encode(&c->out, type, message)
			: agent_add_raw(&c->out, type, NULL, 0);

	if (r == 0) {
		r = agent_replies_expect(&c->replies, type, message);
		if (r < 0)
			c->out.end = c->out.start + before;
	}
	switch (r) {
	case 0:
		return 0;
	case -E2BIG:
		return error_set(e, ERROR_LIMIT, E2BIG,
			"a field of the %s request is too long (command line %d KiB, environment "
			"%d KiB, paths %d bytes)",
			agent_type_name(type), AGENT_ARGV_BYTES_MAX / 1024,
			AGENT_ENV_BYTES_MAX / 1024, AGENT_PATH_MAX);
	case -EINVAL:
		return error_set(e, ERROR_USAGE, EINVAL,
			"%s: environment variables have the form NAME=value",
			agent_type_name(type));
	case -EMSGSIZE:
		return error_set(e, ERROR_LIMIT, EMSGSIZE, "too many requests are queued");
	default:
		return error_set(e, ERROR_INTERNAL, -r, "out of memory");
	}
}

int agent_exec_start(struct agent_conn *c, const struct agent_exec *exec, struct error *e)
{
	int r = agent_request(c, AGENT_EXEC, exec, e);

	if (r == 0) {
		c->stdin_open = exec->flags & (AGENT_EXEC_STDIN | AGENT_EXEC_PTY);
		c->in_flight = 0;
	}
	return r;
}

size_t agent_stdin_room(const struct agent_conn *c)
{
	if (!c->stdin_open || c->in_flight >= AGENT_STDIN_WINDOW)
		return 0;
	return AGENT_STDIN_WINDOW - c->in_flight;
}

static ssize_t queue_bytes(
	struct agent_conn *c, enum agent_type type, const uint8_t *data, size_t n)
{
	size_t done = 0;

	while (done < n) {
		size_t part = n - done < AGENT_PAYLOAD_MAX ? n - done : AGENT_PAYLOAD_MAX;
		int r = agent_add_raw(&c->out, type, data + done, part);

		if (r < 0)
			return done ? (ssize_t)done : r;
		done += part;
	}
	return (ssize_t)done;
}

ssize_t agent_send_stdin(struct agent_conn *c, const void *data, size_t n)
{
	size_t room = agent_stdin_room(c);
	ssize_t r = queue_bytes(c, AGENT_STDIN, data, n < room ? n : room);

	if (r > 0)
		c->in_flight += (size_t)r;
	return r;
}

int agent_send_stdin_eof(struct agent_conn *c)
{
	c->stdin_open = false;
	return agent_add_raw(&c->out, AGENT_STDIN_EOF, NULL, 0);
}

int agent_send_signal(struct agent_conn *c, int signo, unsigned flags)
{
	struct agent_signal m = {.signo = (uint32_t)signo, .flags = flags};

	return agent_signal_encode(&c->out, &m);
}

int agent_send_resize(struct agent_conn *c, unsigned cols, unsigned rows)
{
	struct agent_resize m = {.cols = (uint16_t)cols, .rows = (uint16_t)rows};

	return agent_resize_encode(&c->out, &m);
}

int agent_send_stop(struct agent_conn *c)
{
	return agent_add_raw(&c->out, AGENT_STOP, NULL, 0);
}

ssize_t agent_send_data(struct agent_conn *c, const void *data, size_t n)
{
	size_t queued = buf_len(&c->out), room = 4 * AGENT_PAYLOAD_MAX;

	if (queued >= room)
		return 0;
	return queue_bytes(c, AGENT_DATA, data, n < room - queued ? n : room - queued);
}

int agent_send_end(struct agent_conn *c)
{
	return agent_add_raw(&c->out, AGENT_END, NULL, 0);
}

/* --- blocking --- */

static int expect(const struct agent_event *ev, enum agent_type type, struct error *e)
{
	return ev->type == type ? 0 : agent_event_error(ev, e);
}

int agent_call(struct agent_conn *c, uint64_t deadline_ns, enum agent_type type,
	const void *message, enum agent_type reply, struct agent_event *ev, struct error *e)
{
	int r = agent_request(c, type, message, e);

	if (r == 0)
		r = agent_wait_event(c, deadline_ns, ev, e);
	return r < 0 ? r : expect(ev, reply, e);
}

static int call_ok(struct agent_conn *c, uint64_t deadline_ns, enum agent_type type,
	const void *message, enum agent_type reply, struct error *e)
{
	struct agent_event ev;

	return agent_call(c, deadline_ns, type, message, reply, &ev, e);
}

int agent_hello(
	struct agent_conn *c, uint64_t deadline_ns, struct agent_hello_reply *ret, struct error *e)
{
	struct agent_hello m = {1, AGENT_PROTOCOL_VERSION};
	struct agent_event ev;
	int r = agent_call(c, deadline_ns, AGENT_HELLO, &m, AGENT_HELLO_REPLY, &ev, e);

	if (r < 0)
		return r;
	if (ev.hello.version < m.version_min || ev.hello.version > m.version_max)
		return error_set(e, ERROR_INCOMPATIBLE, EPROTONOSUPPORT,
			"the guest's agent speaks protocol %u to %u, this program %u to %u: "
			"rebuild the template",
			ev.hello.version_min, ev.hello.version_max, m.version_min, m.version_max);
	*ret = ev.hello;
	return 0;
}

static int identity_error(const struct agent_identity_reply *reply, struct error *e)
{
	for (unsigned i = 0; i < AGENT_ID_FIELDS; i++) {
		int err = (int)reply->errs[i];

		if (reply->failed & (1U << i))
			return error_set_errno(e, ERROR_SANDBOX, err > 0 && err < 4096 ? err : EIO,
				"the guest could not take its %s", agent_id_name(i));
	}
	return 0;
}

int agent_identity(struct agent_conn *c, uint64_t deadline_ns, const struct agent_identity *m,
	struct agent_identity_reply *ret, struct error *e)
{
	struct agent_event ev;
	int r = agent_call(c, deadline_ns, AGENT_IDENTITY, m, AGENT_IDENTITY_REPLY, &ev, e);

	if (r < 0)
		return r;
	if (!ret)
		return identity_error(&ev.identity, e);
	*ret = ev.identity;
	return 0;
}

int agent_sync(struct agent_conn *c, uint64_t deadline_ns, unsigned flags, struct error *e)
{
	struct agent_sync m = {.flags = flags};

	return call_ok(c, deadline_ns, AGENT_SYNC, &m, AGENT_OK, e);
}

int agent_hold(struct agent_conn *c, uint64_t deadline_ns, struct error *e)
{
	struct agent_hold m = {.limit_ms = AGENT_HOLD_MS};

	return call_ok(c, deadline_ns, AGENT_HOLD, &m, AGENT_OK, e);
}

int agent_release(struct agent_conn *c, uint64_t deadline_ns, struct error *e)
{
	return call_ok(c, deadline_ns, AGENT_RELEASE, NULL, AGENT_OK, e);
}

int agent_shutdown(struct agent_conn *c, uint64_t deadline_ns, unsigned flags, uint32_t grace_ms,
	struct error *e)
{
	struct agent_shutdown m = {.flags = flags, .grace_ms = grace_ms};

	return call_ok(c, deadline_ns, AGENT_SHUTDOWN, &m, AGENT_OK, e);
}

int agent_metrics(
	struct agent_conn *c, uint64_t deadline_ns, struct agent_metrics *ret, struct error *e)
{
	struct agent_event ev;
	int r = agent_call(c, deadline_ns, AGENT_GET_METRICS, NULL, AGENT_METRICS, &ev, e);

	if (r == 0)
		*ret = ev.metrics;
	return r;
}

int agent_stat(struct agent_conn *c, uint64_t deadline_ns, const char *path, unsigned flags,
	struct agent_entry *ret, struct error *e)
{
	struct agent_stat m = {.flags = flags, .path = path};
	struct agent_event ev;
	int r = agent_call(c, deadline_ns, AGENT_STAT, &m, AGENT_ENTRY, &ev, e);

	if (r == 0)
		*ret = ev.entry;
	return r;
}

int agent_mkdir(
	struct agent_conn *c, uint64_t deadline_ns, const struct agent_mkdir *m, struct error *e)
{
	return call_ok(c, deadline_ns, AGENT_MKDIR, m, AGENT_ENTRY, e);
}

int agent_move(
	struct agent_conn *c, uint64_t deadline_ns, const struct agent_move *m, struct error *e)
{
	return call_ok(c, deadline_ns, AGENT_MOVE, m, AGENT_ENTRY, e);
}

int agent_remove(struct agent_conn *c, uint64_t deadline_ns, const char *path, unsigned flags,
	struct error *e)
{
	struct agent_remove m = {.flags = flags, .path = path};

	return call_ok(c, deadline_ns, AGENT_REMOVE, &m, AGENT_OK, e);
}

int agent_set_attr(
	struct agent_conn *c, uint64_t deadline_ns, const struct agent_set_attr *m, struct error *e)
{
	return call_ok(c, deadline_ns, AGENT_SET_ATTR, m, AGENT_ENTRY, e);
}

int agent_set_xattrs(struct agent_conn *c, uint64_t deadline_ns, const struct agent_set_xattrs *m,
	struct error *e)
{
	return call_ok(c, deadline_ns, AGENT_SET_XATTRS, m, AGENT_OK, e);
}

int agent_signal_process(struct agent_conn *c, uint64_t deadline_ns,
	const struct agent_signal_process *m, struct error *e)
{
	return call_ok(c, deadline_ns, AGENT_SIGNAL_PROCESS, m, AGENT_OK, e);
}

int agent_dial(struct agent_conn *c, uint64_t deadline_ns, const char *host, uint16_t port,
	struct error *e)
{
	struct agent_dial m = {.host = host, .port = port};

	return call_ok(c, deadline_ns, AGENT_DIAL, &m, AGENT_OK, e);
}

static int read_data(
	struct agent_conn *c, uint64_t deadline_ns, size_t max, struct buf *b, struct error *e)
{
	struct agent_event ev;
	int r;

	for (;;) {
		r = agent_wait_event(c, deadline_ns, &ev, e);
		if (r < 0)
			return r;
		if (ev.type == AGENT_END)
			return 0;
		r = expect(&ev, AGENT_DATA, e);
		if (r < 0)
			return r;
		r = buf_add(b, ev.data, ev.length);
		if (r < 0)
			return r == -EMSGSIZE ? error_set(e, ERROR_LIMIT, EFBIG,
							"the file is larger than %zu bytes", max)
					      : error_set(e, ERROR_INTERNAL, -r, "out of memory");
	}
}

int agent_read_file(struct agent_conn *c, uint64_t deadline_ns, const char *path, size_t max,
	uint8_t **ret, size_t *ret_bytes, struct error *e)
{
	/* Asks for one byte more than max, to notice that there is more. */
	struct agent_read m = {.length = (uint64_t)max + 1, .path = path};
	_cleanup_(buf_done) struct buf b = BUF_INIT(max);
	struct agent_event ev;
	int r = agent_call(c, deadline_ns, AGENT_READ, &m, AGENT_ENTRY, &ev, e);
	uint8_t *copy;

	if (r == 0)
		r = read_data(c, deadline_ns, max, &b, e);
	if (r < 0)
		return r;
	copy = malloc(buf_len(&b) + 1);
	if (!copy)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (buf_len(&b))
		memcpy(copy, buf_head(&b), buf_len(&b));
	copy[buf_len(&b)] = '\0';
	*ret = copy;
	*ret_bytes = buf_len(&b);
	return 0;
}

static int send_all(struct agent_conn *c, uint64_t deadline_ns, const uint8_t *data, size_t n,
	struct agent_event *ev, struct error *e)
{
	uint64_t left;
	int r;

	while (n) {
		ssize_t k = agent_send_data(c, data, n);

		r = time_left(deadline_ns, &left, e);
		if (r < 0)
			return r;
		if (k < 0)
			return error_set(e, ERROR_INTERNAL, (int)-k, "out of memory");
		data += k;
		n -= (size_t)k;
		r = agent_next_event(c, ev, e);
		if (r != 0)
			return r; /* an early ERROR, or the end */
		if (k == 0 && agent_wants_write(c)) {
			r = wait_for(c, deadline_ns, e);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

int agent_write_file(struct agent_conn *c, uint64_t deadline_ns, const struct agent_write *m,
	const void *data, size_t n, struct error *e)
{
	struct agent_event ev;
	int r = agent_request(c, AGENT_WRITE, m, e), early;

	if (r < 0)
		return r;
	early = send_all(c, deadline_ns, data, n, &ev, e);
	if (early < 0)
		return early;
	/* After an early ERROR the agent ignores what it gets until END. */
	if (early)
		r = expect(&ev, AGENT_ENTRY, e);
	if (agent_send_end(c) < 0)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (early)
		return r;
	r = agent_wait_event(c, deadline_ns, &ev, e);
	return r < 0 ? r : expect(&ev, AGENT_ENTRY, e);
}

/* --- booting --- */

static void pause_ms(unsigned ms)
{
	struct timespec ts = {.tv_nsec = (long)ms * 1000000};

	(void)nanosleep(&ts, NULL); /* shorter is fine */
}

static int try_ready(int dirfd, uint64_t deadline_ns, struct agent_conn **ret, struct error *e)
{
	struct agent_hello_reply hello;
	struct agent_conn *c;
	int r = agent_connect(dirfd, &c, e);

	if (r < 0)
		return r;
	r = agent_hello(c, deadline_ns, &hello, e);
	if (r == 0 && hello.state != AGENT_STATE_READY)
		r = error_set(e, ERROR_BAD_IMAGE, ENOEXEC, "%s",
			hello.problem[0] ? hello.problem : "the guest is not usable");
	if (r == 0)
		*ret = c;
	else
		agent_close(c);
	return r;
}

int agent_connect_ready(int dirfd, uint64_t deadline_ns, struct agent_conn **ret, struct error *e)
{
	for (unsigned ms = READY_PAUSE_MS;; ms = ms * 2 < READY_PAUSE_MAX_MS ? ms * 2 : ms) {
		struct error last = {0};
		int r = try_ready(dirfd, deadline_ns, ret, &last);

		/* A connection made while the guest boots may also be dropped without an answer. */
		if (r != -ECONNREFUSED && r != -ECONNRESET && r != -ENOENT) {
			if (r < 0 && e && e->code == ERROR_NONE)
				*e = last;
			return r;
		}
		if (deadline_ns && clock_monotonic_ns() + ms * NS_PER_MS >= deadline_ns)
			return error_set(e, ERROR_TIMEOUT, ETIMEDOUT,
				"the guest's agent did not come up in time");
		pause_ms(ms);
	}
}
