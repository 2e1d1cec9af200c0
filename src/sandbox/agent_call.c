#include "sandbox/agent_call.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum {
	READY_PAUSE_MS = 2,
	READY_PAUSE_MAX_MS = 50,
	/* between two looks at the clock */
	SHARE_FRAMES = 64,
	SHARE_BYTES = 256 * 1024,
};

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
	struct pollfd p = {.fd = agent_fd(c), .events = agent_poll_events(c)};
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

/* --- one request, one reply --- */

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

int agent_remove(struct agent_conn *c, uint64_t deadline_ns, const char *path, unsigned flags,
	struct error *e)
{
	struct agent_remove m = {.flags = flags, .path = path};

	return call_ok(c, deadline_ns, AGENT_REMOVE, &m, AGENT_OK, e);
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
