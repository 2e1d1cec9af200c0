/* Requests, input and data: whatever the host queues for the agent. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "sandbox/agent_client_internal.h"

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
		c->stdin_open = (exec->flags & (AGENT_EXEC_STDIN | AGENT_EXEC_PTY)) &&
				!(exec->flags & AGENT_EXEC_DETACHED);
		c->in_flight = 0;
	}
	return r;
}

int agent_attach_start(struct agent_conn *c, const char *tag, struct error *e)
{
	const struct agent_attach m = {.process = {.tag = tag}};
	int r = agent_request(c, AGENT_ATTACH, &m, e);

	c->attaching = r == 0;
	return r;
}

int agent_attach_feeding(struct agent_conn *c, const char *tag, struct error *e)
{
	int r = agent_attach_start(c, tag, e);

	c->stdin_open = r == 0;
	c->in_flight = 0;
	c->attaching = false;
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

bool agent_feed_stdin(struct agent_conn *c, const void *data, size_t n, size_t *sent)
{
	ssize_t k = 0;

	while (*sent < n && agent_stdin_room(c) && k >= 0) {
		k = agent_send_stdin(c, (const uint8_t *)data + *sent, n - *sent);
		*sent += k > 0 ? (size_t)k : 0;
	}
	return *sent == n;
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
